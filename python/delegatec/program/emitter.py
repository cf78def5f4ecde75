# SPDX-License-Identifier: Apache-2.0
"""From edge programs to an emitted program: values, instructions, delegates, and planned memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.delegation import LoweredModule, call_delegate
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.arguments import bind
from delegatec.edge.out_variants import kernel_name, out_arguments, out_variant
from delegatec.edge.program import EdgeProgram
from delegatec.program.constant_methods import emit_constant_method
from delegatec.program.constants import ConstantPool, tensor_bytes
from delegatec.program.emitted import (
    Delegate,
    DelegateCall,
    EmittedMethod,
    EmittedProgram,
    Instruction,
    KernelCall,
    ListValue,
    TensorValue,
)
from delegatec.program.external import ExternalWeights
from delegatec.program.kernel_arguments import ArgumentError, ArgumentLowering
from delegatec.program.kernel_check import check_kernels
from delegatec.program.memory_plan import plan_memory
from delegatec.program.method_values import MethodValues
from delegatec.program.named_data import merge_named_data
from delegatec.program.options import ProgramOptions
from delegatec.program.own_outputs import own_outputs
from delegatec.program.scalar_type import SCALAR_TYPES
from delegatec.program.specs import spec_text
from delegatec.program.storages import Slot, assign_storages, results_of, slot_of
from delegatec.program.symbolic import PRIMITIVES, bounded_sizes, check_bounds, is_symbolic


def emit(
    programs: Mapping[str, EdgeProgram],
    *,
    external: ExternalWeights | None = None,
    options: ProgramOptions | None = None,
    constant_methods: Mapping[str, Any] | None = None,
) -> EmittedProgram:
    """Emits methods into one program. Constants that methods share are stored once.

    Args:
        programs: name -> edge program; outputs that nothing owns (an input, a constant) become copies.
        external: weights that are read from a `.ptd` and are not stored in the program; none by default.
        options: how the program is laid out.
        constant_methods: name -> value of further methods, checked by `check_constant_methods`.

    Raises:
        DelegatecError: DC201, DC202 for operators and dtypes that the runtime does not have, DC203 for
            dimensions without a bound; then DC301, DC302 for values and arguments that a program cannot hold,
            DC361 for named data; the problems of all methods at once.
    """
    problems = [
        problem
        for program in programs.values()
        for problem in (*check_kernels(program), *check_bounds(program))
    ]
    if problems:
        raise DelegatecError(problems)
    pool = ConstantPool()
    external = external or ExternalWeights({})
    emitted = EmittedProgram(methods=[], options=options or ProgramOptions())
    for name, program in programs.items():
        own_outputs(program)
        emitter = _MethodEmitter(name, program, pool, external, emitted.mutable_data)
        emitted.methods.append(emitter.emit())
        problems += emitter.problems
    if problems:
        raise DelegatecError(problems)
    for name, value in (constant_methods or {}).items():
        emitted.methods.append(emit_constant_method(name, value, pool))
    emitted.constants, emitted.constant_names = pool.data, pool.names
    emitted.external = external.used
    emitted.named_data = merge_named_data(emitted.methods, external.names)
    return emitted


class _MethodEmitter:
    """Emits one method."""

    def __init__(
        self,
        name: str,
        program: EdgeProgram,
        pool: ConstantPool,
        external: ExternalWeights,
        mutable_data: list[memoryview],
    ) -> None:
        self.problems: list[Diagnostic] = []
        self._name = name
        self._program = program
        self._pool = pool
        self._external = external
        self._mutable_data = mutable_data
        self._targets = {
            node.name: spec.target
            for node, spec in zip(program.placeholders(), program.input_specs, strict=True)
        }
        self._values = MethodValues()
        self._indices: dict[Slot, int] = {}
        self._operators: dict[tuple[str, str], int] = {}
        self._delegates: dict[str, int] = {}
        self._delegate_list: list[Delegate] = []
        self._arguments = ArgumentLowering(self._values, self._node, self._scalar_tensor)
        self._storages = assign_storages(program)
        self._plan = plan_memory(self._storages.all())

    def emit(self) -> EmittedMethod:
        """The method; what is wrong with it is in `problems`."""
        inputs = [self._input(node) for node in self._program.user_inputs()]
        instructions: list[Instruction] = []
        handles: list[tuple[int, ...]] = []
        for node in self._storages.steps:
            try:
                instructions.append(self._instruction(node))
            except ArgumentError as error:
                self.problems.append(_bad_argument(node, error))
            handles.append(_handles(self._program, node))
        instructions += self._write_back()
        handles += [()] * (len(instructions) - len(handles))
        return EmittedMethod(
            name=self._name,
            values=self._values.values,
            inputs=inputs,
            outputs=[self._output(value) for value in self._user_outputs()],
            operators=list(self._operators),
            instructions=instructions,
            debug_handles=handles,
            delegates=self._delegate_list,
            memory_plan=self._plan,
            in_spec=spec_text(self._program.in_spec),
            out_spec=spec_text(self._program.out_spec),
        )

    def _input(self, node: Node) -> int:
        val = node.meta["val"]
        return self._node(node) if isinstance(val, torch.Tensor) else self._values.add(val)

    def _user_outputs(self) -> list[Any]:
        results: Any = self._program.output_node().args[0]
        return [
            result
            for result, spec in zip(results, self._program.output_specs, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]

    def _output(self, value: Any) -> int:
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, (type(None), bool, int, float, str)):
            return self._values.add(value)
        self.problems.append(
            Diagnostic("DC301", f"{self._name} returns {value!r}", expected="tensors and numbers")
        )
        return 0

    def _write_back(self) -> list[Instruction]:
        """Copies the new value of each mutable buffer into its memory, after everything else has run."""
        placeholders = {node.name: node for node in self._program.placeholders()}
        writes: list[Instruction] = []
        for target, value in self._storages.mutable.items():
            buffer = self._node(placeholders[target])
            args = (buffer, self._node(value), self._values.share(False), buffer)
            writes.append(KernelCall(self._operator("aten::copy_", ""), args))
        return writes

    def _node(self, node: Node) -> int:
        slot = slot_of(node)
        if slot not in self._indices and is_symbolic(node.meta["val"]):
            # computed at run time; 0 is where it starts
            self._indices[slot] = self._values.add(0)
        return self._indices[slot] if slot in self._indices else self._tensor(slot)

    def _tensor(self, slot: Slot) -> int:
        if slot not in self._indices:
            self._indices[slot] = self._values.add(self._tensor_value(slot))
        return self._indices[slot]

    def _tensor_value(self, slot: Slot) -> TensorValue:
        node, position = slot
        val = results_of(node)[position]
        scalar_type, sizes = SCALAR_TYPES[val.dtype], bounded_sizes(self._program, val)
        is_dynamic = any(is_symbolic(size) for size in val.shape)
        constant = self._storages.constants.get(slot)
        if constant is not None:
            key = self._external.key(self._program.constants[constant], sizes)
            if key is not None:
                return TensorValue(scalar_type, sizes, name=key, is_external=True)
            name = self._targets[constant] or constant
            index = self._pool.add(self._program.constants[constant], name)
            return TensorValue(scalar_type, sizes, constant_index=index)
        placement = self._storages.placements[slot]
        offset = placement.storage.offset + placement.offset
        if node.name in self._storages.mutable and node.name in self._program.constants:
            key = self._external.key(self._program.constants[node.name], sizes)
            if key is not None:
                return TensorValue(
                    scalar_type, sizes, offset=offset, is_mutable=True, name=key, is_external=True
                )
            self._mutable_data.append(tensor_bytes(self._program.constants[node.name]))
            name = self._targets[node.name] or node.name
            return TensorValue(
                scalar_type, sizes, len(self._mutable_data), offset, is_mutable=True, name=name
            )
        return TensorValue(scalar_type, sizes, offset=offset, is_dynamic=is_dynamic)

    def _scalar_tensor(self, number: Any, dtype: torch.dtype) -> int:
        index = self._pool.add(torch.tensor(number, dtype=dtype), f"scalar {number}")
        return self._values.share(TensorValue(SCALAR_TYPES[dtype], (), constant_index=index))

    def _operator(self, name: str, overload: str) -> int:
        return self._operators.setdefault((name, overload), len(self._operators))

    def _instruction(self, node: Node) -> Instruction:
        if node.target is call_delegate:
            return self._delegate_call(node)
        if node.target in PRIMITIVES:
            return self._primitive_call(node)
        return self._kernel_call(node)

    def _primitive_call(self, node: Node) -> KernelCall:
        args = [
            self._node(value) if isinstance(value, Node) else self._values.share(_number(value))
            for value in node.args
        ]
        return KernelCall(self._operator(*PRIMITIVES[node.target]), (*args, self._node(node)))

    def _kernel_call(self, node: Node) -> KernelCall:
        out = out_variant(node.target)
        assert out is not None, "check_kernels has let it through"
        bound = bind(node)
        results = [self._tensor((node, position)) for position in range(len(results_of(node)))]
        outs = dict(zip(out_arguments(out), results, strict=True))
        operands = [n.meta["val"] for n in node.all_input_nodes]
        dtype = next((v.dtype for v in operands if isinstance(v, torch.Tensor)), torch.float32)
        args = [
            outs[argument.name]
            if argument.name in outs
            else self._arguments.lower(argument, bound.get(argument.name), dtype)
            for argument in out._schema.arguments
        ]
        name, _, overload = kernel_name(out).partition(".")
        # behind the arguments stands what the kernel returns
        returned = (
            results
            if len(results) == 1
            else [*results, self._values.share(ListValue("TensorList", tuple(results)))]
        )
        return KernelCall(self._operator(name, overload), (*args, *returned[-1:]))

    def _delegate_call(self, node: Node) -> DelegateCall:
        attribute = node.args[0]
        assert isinstance(attribute, Node) and isinstance(attribute.target, str)
        module = getattr(self._program.graph_module, attribute.target)
        assert isinstance(module, LoweredModule)
        if attribute.target not in self._delegates:
            self._delegates[attribute.target] = len(self._delegate_list)
            self._delegate_list.append(
                Delegate(
                    module.backend_id,
                    module.blob,
                    tuple((spec.key, spec.value) for spec in module.compile_specs),
                    attribute.target,
                    module.debug_handle_map,
                    module.named_data,
                    num_outputs=len(results_of(node)),
                )
            )
        inputs = [self._node(source) for source in node.args[1:] if isinstance(source, Node)]
        outputs = [self._tensor((node, position)) for position in range(len(results_of(node)))]
        return DelegateCall(self._delegates[attribute.target], (*inputs, *outputs))


def _number(value: Any) -> int | float:
    assert isinstance(value, (int, float)), f"{value!r} among the arguments of a primitive"
    return value


def _handles(program: EdgeProgram, node: Node) -> tuple[int, ...]:
    """Debug handles of a step; the call of a delegate has those of all nodes that went into it."""
    if node.target is call_delegate:
        (module, *_) = node.all_input_nodes
        return tuple(getattr(program.graph_module, str(module.target)).debug_handles)
    handle = node.meta.get("debug_handle")
    return (handle,) if handle is not None else ()


def _bad_argument(node: Node, error: ArgumentError) -> Diagnostic:
    return Diagnostic(
        "DC302",
        f"{node.target} is called with {error}",
        location=node.meta.get("source"),
        node=node.name,
        help="call it with tensors, numbers, and lists of these",
    )
