# SPDX-License-Identifier: Apache-2.0
"""Emission of one method: values, instructions, delegates, and planned memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node

from delegatec.delegation import LoweredModule, call_delegate
from delegatec.diagnostics import Diagnostic
from delegatec.edge.arguments import bind
from delegatec.edge.dim_orders import REORDERS, caller_orders
from delegatec.edge.out_variants import kernel_name, out_arguments, out_variant
from delegatec.edge.program import EdgeProgram
from delegatec.program.constants import ConstantPool
from delegatec.program.emitted import (
    Delegate,
    DelegateCall,
    EmittedMethod,
    Instruction,
    JumpFalseCall,
    KernelCall,
    ListValue,
    MoveCall,
    TensorValue,
)
from delegatec.program.external import ExternalWeights
from delegatec.program.kernels.arguments import ArgumentError, ArgumentLowering, parameters
from delegatec.program.kernels.dim_order import REORDER
from delegatec.program.method_values import MethodValues
from delegatec.program.planning.assignment import Placement, Storages
from delegatec.program.planning.instructions import (
    PlannedInstruction,
    PlannedJump,
    PlannedKernel,
    PlannedMove,
    PlannedNode,
    PlannedResize,
    Slot,
    Source,
    results_of,
    slot_of,
    source_of,
)
from delegatec.program.planning.memory_plan import CALLERS, PLANNED, STATE, MemoryPlan, Storage
from delegatec.program.planning.state import State
from delegatec.program.scalar_type import SCALAR_TYPES
from delegatec.program.specs import spec_text
from delegatec.program.symbolic import PRIMITIVES, bounded_sizes, is_symbolic
from delegatec.program.zeros import Zeros, is_zero


class MethodEmitter:
    """Emits one method.

    Attributes:
        problems: what cannot be emitted.
        zeros: buffers whose initial state are zeros, which they do not have yet.
    """

    def __init__(
        self,
        name: str,
        program: EdgeProgram,
        pool: ConstantPool,
        external: ExternalWeights,
        state: State,
        storages: Storages,
        plan: MemoryPlan,
    ) -> None:
        self.problems: list[Diagnostic] = []
        self.zeros: list[Zeros] = []
        self._name = name
        self._program = program
        self._pool = pool
        self._external = external
        self._state = state
        # placeholder of a constant, in the program or a body -> the constant, and its name in the model
        self._constants = {
            node: (each.constants[node.name], spec.target or node.name)
            for each in program.walk()
            for node, spec in zip(each.placeholders(), each.input_specs, strict=True)
            if node.name in each.constants
        }
        self._buffers = {
            node.name: self._constants[node][1] for node in program.placeholders() if node in self._constants
        }
        self._dim_orders = {slot_of(node): order for node, order in caller_orders(program).items()}
        self._modules = {each.graph: each.graph_module for each in program.walk()}
        self._values = MethodValues()
        self._indices: dict[Slot, int] = {}
        self._zeros: dict[Slot, int] = {}  # buffer whose initial state are zeros -> its size
        self._operators: dict[tuple[str, str], int] = {}
        self._delegates: dict[LoweredModule, int] = {}
        self._delegate_list: list[Delegate] = []
        self._arguments = ArgumentLowering(self._values, self._node, self._scalar_tensor)
        self._storages = storages
        self._plan = plan

    def emit(self) -> EmittedMethod:
        """Returns the method; collects errors in `problems`."""
        inputs = [self._input(node) for node in self._program.user_inputs()]
        instructions: list[Instruction] = []
        handles: list[tuple[int, ...]] = []
        for planned in self._storages.instructions:
            try:
                instructions.append(self._instruction(planned))
            except ArgumentError as error:
                self.problems.append(_bad_argument(planned.node, error))
            handles.append(self._handles(planned.node))
        for instruction, value in self._write_back():
            instructions.append(instruction)
            handles.append(self._handles(value))
        return EmittedMethod(
            name=self._name,
            values=self._values.values,
            inputs=inputs,
            outputs=[self._output(value) for value in self._program.user_outputs()],
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
        is_computed = isinstance(val, torch.Tensor) or is_symbolic(val)
        return self._node(node) if is_computed else self._values.add(val)

    def _output(self, value: Any) -> int:
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, (type(None), bool, int, float, str)):
            return self._values.add(value)
        self.problems.append(
            Diagnostic("DC301", f"{self._name} returns {value!r}", expected="tensors and scalars")
        )
        return 0

    def _write_back(self) -> Iterator[tuple[Instruction, Node]]:
        """Copies new values of mutable buffers into their memory, after all other instructions.

        Yields:
            The instructions, each with the node whose value it copies.
        """
        placeholders = {node.name: node for node in self._program.placeholders()}
        for target, value in self._storages.mutable.items():
            slot = slot_of(placeholders[target])
            if self._storages.is_written(value, slot):
                # it has the initial state, also if only views of it are read
                self._index(slot)
                continue
            if slot in self._dim_orders:
                yield self._reorder(slot_of(value), slot), value
                continue
            buffer = self._index(slot)
            args = (buffer, self._node(value), self._values.intern(False), buffer)
            yield KernelCall(self._operator("aten::copy_", ""), args), value

    def _node(self, node: Node) -> int:
        return self._index(slot_of(node))

    def _index(self, source: Source) -> int:
        """Returns the value index of a scalar, or of a slot after resolving aliases."""
        slot = self._storages.resolve(source)
        if not isinstance(slot, tuple):
            return self._values.intern(slot)
        if slot not in self._indices:
            val = self._storages.val(slot)
            is_tensor = isinstance(val, torch.Tensor)
            self._indices[slot] = self._values.add(self._tensor_value(slot) if is_tensor else _start(val))
            if slot in self._zeros:
                self.zeros.append(Zeros(self._values.values, self._indices[slot], self._zeros[slot]))
        return self._indices[slot]

    def _tensor_value(self, slot: Slot) -> TensorValue:
        val = self._storages.val(slot)
        scalar_type, sizes = SCALAR_TYPES[val.dtype], bounded_sizes(self._program, val)
        is_dynamic = slot in self._storages.growing or any(is_symbolic(size) for size in val.shape)
        placeholder = self._storages.constants.get(slot)
        if placeholder is not None:
            constant, name = self._constants[placeholder]
            key = self._external.key(constant, sizes)
            if key is not None:
                return TensorValue(scalar_type, sizes, name=key, is_external=True)
            return TensorValue(scalar_type, sizes, constant_index=self._pool.add(constant, name))
        placement = self._storages.placements[slot]
        arena, memory = placement.storage.arena, self._memory_id(placement.storage)
        offset = None if arena == CALLERS else placement.storage.offset + placement.offset
        if arena == STATE and placement.storage.size:
            offset = self._offset_in_state(placement)
        if slot[0] in self._constants:
            # a constant with its own memory is a buffer that some method writes to
            buffer, name = self._constants[slot[0]]
            if arena == STATE and not buffer.numel():
                # the runtime looks for the arena, which must contain nothing else
                memory, offset = PLANNED, 0
            key = self._external.key(buffer, sizes)
            # the runtime fails to load no bytes into an empty arena
            is_stored = key is None and buffer.numel()
            index = 0
            if is_stored and is_zero(buffer):
                self._zeros[slot] = buffer.nbytes
            elif is_stored:
                index = self._state.initial.add(buffer, name)
            return TensorValue(
                scalar_type, sizes, index, offset, False, True, key or name, key is not None, memory
            )
        order = self._dim_orders.get(slot, ())
        return TensorValue(
            scalar_type, sizes, offset=offset, is_dynamic=is_dynamic, arena=memory, dim_order=order
        )

    def _memory_id(self, storage: Storage) -> int:
        """Returns the memory id of a storage; that of shared state follows those of the plan."""
        return len(self._plan.sizes) + 1 if storage.arena == STATE else storage.memory

    def _offset_in_state(self, placement: Placement) -> int:
        """Returns the offset of a buffer, or of a view of one, in the arena that methods share."""
        name = self._buffers[placement.storage.name]
        return self._state.offset(name, placement.storage.size) + placement.offset

    def _scalar_tensor(self, scalar: Any, dtype: torch.dtype) -> int:
        index = self._pool.add(torch.tensor(scalar, dtype=dtype), f"scalar {scalar}")
        return self._values.intern(TensorValue(SCALAR_TYPES[dtype], (), constant_index=index))

    def _operator(self, name: str, overload: str) -> int:
        return self._operators.setdefault((name, overload), len(self._operators))

    def _instruction(self, planned: PlannedInstruction) -> Instruction:
        match planned:
            case PlannedKernel():
                return KernelCall(self._operator(*planned.operator), tuple(map(self._index, planned.args)))
            case PlannedMove():
                return MoveCall(self._index(planned.source), self._index(planned.target))
            case PlannedResize(node, sizes):
                # the kernel leaves the memory as it is
                list_of_sizes = self._values.int_list([*map(self._index, sizes)])
                result = self._node(node)
                args = (list_of_sizes, self._values.intern(None), result, result)
                return KernelCall(self._operator("aten::empty", "out"), args)
            case PlannedJump():
                return JumpFalseCall(self._index(planned.condition), planned.destination)
            case PlannedNode(node):
                if node.target is call_delegate:
                    return self._delegate_call(node)
                if node.target in PRIMITIVES:
                    return self._primitive_call(node)
                if node.target is REORDERS:
                    return self._reorder(source_of(node.args[0]), slot_of(node))
                return self._kernel_call(node)

    def _primitive_call(self, node: Node) -> KernelCall:
        args = [self._index(source_of(value)) for value in node.args]
        return KernelCall(self._operator(*PRIMITIVES[node.target]), (*args, self._node(node)))

    def _reorder(self, source: Source, target: Slot) -> KernelCall:
        """Emits a copy of a tensor to another one, which may have another dim order."""
        order = self._dim_orders.get(target, range(self._storages.val(target).dim()))
        result = self._index(target)
        dims = self._values.int_list([self._values.intern(dim) for dim in order])
        args = (self._index(source), self._values.intern(False), dims, result, result)
        return KernelCall(self._operator(*REORDER), args)

    def _kernel_call(self, node: Node) -> KernelCall:
        is_in_place = node in self._storages.in_place
        out = torch.ops.aten.index_put_.default if is_in_place else out_variant(node.target)
        assert out is not None, "check_kernels missed it"
        bound = bind(node)
        results = [self._index((node, position)) for position in range(len(results_of(node)))]
        outs = dict(zip(out_arguments(out), results, strict=True)) if not is_in_place else {}
        operands = [n.meta["val"] for n in node.all_input_nodes]
        dtype = next((v.dtype for v in operands if isinstance(v, torch.Tensor)), torch.float32)
        args = [
            outs[each.name] if each.name in outs else self._arguments.lower(each, bound.get(each.name), dtype)
            for each in parameters(out)
        ]
        name, _, overload = kernel_name(out).partition(".")
        # results follow the arguments
        returned = results
        if len(results) != 1:
            returned = [*results, self._values.intern(ListValue("TensorList", tuple(results)))]
        return KernelCall(self._operator(name, overload), (*args, *returned[-1:]))

    def _delegate_call(self, node: Node) -> DelegateCall:
        name, module = self._lowered(node)
        if module not in self._delegates:
            debug_map = module.debug_handle_map
            if "debug_handles" not in node.meta:
                # A delegate of the exported program itself: its handles belong to another program.
                debug_map = dict.fromkeys(debug_map, self._handles(node))
            self._delegates[module] = len(self._delegate_list)
            self._delegate_list.append(
                Delegate(
                    module.backend_id,
                    module.blob,
                    tuple((spec.key, spec.value) for spec in module.compile_specs),
                    name,
                    debug_map,
                    module.named_data,
                    num_outputs=len(results_of(node)),
                    constant_names=module.constant_names,
                    inline=module.inline,
                )
            )
        inputs = [self._node(source) for source in node.args[1:] if isinstance(source, Node)]
        outputs = [self._index((node, position)) for position in range(len(results_of(node)))]
        return DelegateCall(self._delegates[module], (*inputs, *outputs))

    def _lowered(self, call: Node) -> tuple[str, LoweredModule]:
        """Returns name and module of the delegate that a node calls."""
        attribute = call.args[0]
        assert isinstance(attribute, Node) and isinstance(attribute.target, str)
        module = getattr(self._modules[call.graph], attribute.target)
        assert isinstance(module, LoweredModule)
        return attribute.target, module

    def _handles(self, node: Node) -> tuple[int, ...]:
        """Returns the debug handles of an instruction; for a delegate call, those of all its nodes."""
        if "debug_handles" in node.meta:
            return tuple(node.meta["debug_handles"])
        handle = node.meta.get("debug_handle")
        return (handle,) if handle is not None else ()


def _start(val: Any) -> bool | int | float:
    """Returns the initial value of a scalar that is computed at run time."""
    return {torch.SymBool: False, torch.SymFloat: 0.0, bool: False, float: 0.0}.get(type(val), 0)


def _bad_argument(node: Node, error: ArgumentError) -> Diagnostic:
    return Diagnostic(
        "DC302",
        f"cannot emit a call of {node.target} with {error}",
        location=node.meta.get("source"),
        node=node.name,
        help="pass tensors, scalars, or lists of these",
    )
