# SPDX-License-Identifier: Apache-2.0
"""Reader of the graph of a VGF file, as a graph of TOSA operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from delegatec.backends.arm.blob import Graph
from delegatec.backends.arm.building.operation import OPERATOR_NAMES, Operation, Value
from delegatec.backends.arm.vgf.container import FORMAT, Container, read_container
from delegatec.backends.arm.vgf.literals import Literals
from delegatec.backends.arm.vgf.operators import (
    ACCUMULATORS,
    ATTRIBUTES,
    ELEMENTS,
    INSTRUCTIONS,
    LISTS,
    SHAPES,
)
from delegatec.backends.arm.vgf.spirv import BINDING, Opcode, instructions, text

_ERRORS: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Exceptions when reading a damaged module: an id that it does not define, or of another kind."""


def read_graph(data: memoryview) -> Graph:
    """Reads an untrusted VGF file. The bytes of constants outside of its module are not copied.

    Raises:
        DelegatecError: DC407, with its problem.
    """
    return _Module(read_container(data)).graph()


class _Module:
    def __init__(self, container: Container) -> None:
        self._container = container
        self._literals = literals = Literals()
        self._values: dict[int, Any] = {}
        self._bindings: dict[int, int] = {}
        self._sets: set[int] = set()
        self._interface: Sequence[int] = ()
        self._inputs: dict[int, Value] = {}
        self._outputs: dict[int, Value] = {}
        self._operations: list[Operation] = []
        self._readers: Mapping[int, Callable[..., None]] = {
            Opcode.EXT_INST_IMPORT: self._import,
            Opcode.EXT_INST: self._operation,
            Opcode.TYPE_BOOL: literals.boolean_type,
            Opcode.TYPE_INT: literals.integer_type,
            Opcode.TYPE_FLOAT: literals.float_type,
            Opcode.TYPE_STRUCT: literals.struct_type,
            Opcode.TYPE_TENSOR: literals.tensor_type,
            Opcode.CONSTANT_TRUE: literals.true,
            Opcode.CONSTANT_FALSE: literals.false,
            Opcode.CONSTANT: literals.constant,
            Opcode.CONSTANT_COMPOSITE: literals.composite,
            Opcode.CONSTANT_REPLICATE: literals.replicated,
            Opcode.CONSTANT_NULL: literals.null,
            Opcode.DECORATE: self._decorate,
            Opcode.COMPOSITE_EXTRACT: self._extract,
            Opcode.GRAPH_CONSTANT: self._constant,
            Opcode.GRAPH_ENTRY_POINT: self._entry_point,
            Opcode.GRAPH_INPUT: self._input,
            Opcode.GRAPH_SET_OUTPUT: self._output,
        }

    def graph(self) -> Graph:
        """Reads the module."""
        try:
            for opcode, operands in instructions(self._container.words):
                if opcode in self._readers:
                    self._readers[opcode](*operands)
            inputs, outputs = self._bound(self._inputs, 0), self._bound(self._outputs, len(self._inputs))
            return Graph(
                tuple(inputs[binding] for binding in self._container.inputs),
                tuple(outputs[binding] for binding in self._container.outputs),
                tuple(self._operations),
                tuple(
                    dict.fromkeys(
                        value for each in self._operations for value in each.inputs if value.is_constant
                    )
                ),
            )
        except _ERRORS as error:
            raise FORMAT.damaged(f"its module is invalid: {type(error).__name__} {error}") from error

    def _bound(self, values: Mapping[int, Value], start: int) -> dict[int, Value]:
        """Returns binding -> value; the variables of inputs precede those of outputs."""
        return {self._bindings[self._interface[start + index]]: value for index, value in values.items()}

    # ---- instructions ------------------------------------------------------------------------------------

    def _import(self, id: int, *name: int) -> None:
        if text(name)[0] == INSTRUCTIONS:
            self._sets.add(id)

    def _decorate(self, id: int, decoration: int, *words: int) -> None:
        if decoration == BINDING:
            self._bindings[id] = words[0]

    def _entry_point(self, _: int, *operands: int) -> None:
        self._interface = operands[text(operands)[1] :]

    def _constant(self, kind: int, id: int, index: int) -> None:
        declared, data = self._literals.types[kind], self._container.constants[index]
        if len(data) != declared.bytes:
            raise ValueError(f"constant {index} has {len(data)} bytes, not {declared.bytes}")
        self._values[id] = Value(f"constant_{id}", declared.dtype, declared.shape, data, is_constant=True)

    def _input(self, kind: int, id: int, index: int, *_: int) -> None:
        declared = self._literals.types[kind]
        value = Value(f"value_{id}", declared.dtype, declared.shape)
        self._values[id] = self._inputs[self._literals.integer(index)] = value

    def _output(self, id: int, index: int, *_: int) -> None:
        self._outputs[self._literals.integer(index)] = self._values[id]

    def _extract(self, _: int, id: int, composite: int, index: int) -> None:
        self._values[id] = self._values[composite][index]

    def _operation(self, kind: int, id: int, instruction_set: int, operator: int, *operands: int) -> None:
        if instruction_set not in self._sets:
            raise ValueError(f"its instructions are not {INSTRUCTIONS}")
        name, declared = OPERATOR_NAMES[operator + 1], self._literals.types[kind]
        names, shapes = ATTRIBUTES.get(name, ()), SHAPES.get(name, ())
        attributes = {
            key: self._attribute(key, operand) for key, operand in zip(names, operands, strict=False)
        }
        inputs = tuple(
            self._operand(operand, position in shapes)
            for position, operand in enumerate(operands[len(names) :])
        )
        results = [
            Value(f"value_{id}.{index}", each.dtype, each.shape)
            for index, each in enumerate(declared if isinstance(declared, list) else [declared])
        ]
        self._values[id] = results if isinstance(declared, list) else results[0]
        self._operations.append(Operation(name, inputs, tuple(results), attributes))

    def _attribute(self, name: str, id: int) -> Any:
        if name in ELEMENTS:
            return list(self._literals.elements(id).tobytes())
        if name == "acc_type":
            return ACCUMULATORS[self._literals.integer(id)]
        return self._literals.elements(id).tolist() if name in LISTS else self._literals.integer(id)

    def _operand(self, id: int, is_shape: bool) -> Value:
        value: Value = self._values[id] if id in self._values else self._literals.value(id, is_shape)
        return value
