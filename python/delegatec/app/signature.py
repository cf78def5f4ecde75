# SPDX-License-Identifier: Apache-2.0
"""Methods of a program as functions of C++."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.app.arenas import Arenas
from delegatec.app.identifiers import identifiers
from delegatec.app.shapes import Dimension
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.model import Dynamism, Method, Tensor, Value
from delegatec.report.memory_info import ArenaInfo
from delegatec.report.methods import Argument, MethodInfo

# dtype -> name of executorch::aten::ScalarType; without those that no kernel has.
_SCALAR_TYPES: Final = {
    "bfloat16": "BFloat16",
    "bool": "Bool",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "int8": "Char",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "uint8": "Byte",
}
# Python type of a number -> its type in C++, and the method of an EValue that returns it.
_NUMBERS: Final = {bool: ("bool", "toBool"), int: ("int64_t", "toInt"), float: ("double", "toDouble")}
_TENSOR: Final = ("executorch::aten::Tensor", "toTensor")
# What the body of a function names.
_TAKEN: Final = ("call", "values")


@dataclass(frozen=True)
class Input:
    """An input of a method.

    Attributes:
        position: its position among the inputs.
        name: name of the parameter; "" for a constant.
        value: what the runtime gets: the parameter, or the constant.
        dtype: its scalar type; "" for a constant.
        sizes: its largest sizes.
        dim_order: its dimensions in the order of memory.
        least: its least sizes.
        symbols: index of the symbol of each dimension; -1 without.
        text: a description.
    """

    position: int
    name: str
    value: str
    dtype: str = ""
    sizes: tuple[int, ...] = ()
    dim_order: tuple[int, ...] = ()
    least: tuple[int, ...] = ()
    symbols: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Output:
    """An output of a method.

    Attributes:
        position: its position among the outputs.
        name: name of the member.
        type: its type.
        getter: the method of an EValue that returns it.
        text: a description.
    """

    position: int
    name: str
    type: str
    getter: str
    text: str


@dataclass(frozen=True)
class Function:
    """A method.

    Attributes:
        method: its name in the program.
        name: name of the function.
        type: what names of types for it start with.
        inputs: its inputs.
        outputs: its outputs, apart from None.
        planned: bytes of each planned memory.
        memory: sizes of its arenas, if they were measured.
        arenas: sizes of its arenas as the manifest has them.
        memories: names of the planned memories, if they are declared.
    """

    method: str
    name: str
    type: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    planned: tuple[int, ...]
    memory: Arenas | None
    arenas: ArenaInfo | None
    memories: tuple[str, ...]

    @property
    def parameters(self) -> tuple[Input, ...]:
        """The inputs that are not constants."""
        return tuple(each for each in self.inputs if each.name)


def function_of(
    method: Method,
    info: MethodInfo | None,
    name: str,
    type_name: str,
    memory: Arenas | None,
    arenas: ArenaInfo | None,
    shapes: Sequence[tuple[Dimension, ...] | None],
) -> Function:
    """Returns a method as a function.

    Args:
        method: the method in the file.
        info: its description in the manifest, with names; None for a method that computes nothing.
        name: name of the function.
        type_name: what names of types for it start with.
        memory: sizes of its arenas, if they were measured.
        arenas: sizes of its arenas as the manifest has them.
        shapes: the sizes that each input may have, if they are known.

    Raises:
        DelegatecError: DC519, for an input or output that a function cannot have.
    """
    inputs = _named(method, method.inputs, info.inputs if info else (), "input")
    outputs = _named(method, method.outputs, info.outputs if info else (), "result")
    known = shapes if len(shapes) == len(inputs) else [None] * len(inputs)
    symbols = {each.symbol for shape in known if shape for each in shape if each.symbol}
    index_of = {symbol: index for index, symbol in enumerate(sorted(symbols))}
    names = identifiers((argument for _, argument in inputs), _TAKEN)
    members = identifiers(_member_name(argument) for _, argument in outputs)
    return Function(
        method.name,
        name,
        type_name,
        tuple(
            _input(position, value, names[position], method, argument, known[position], index_of)
            for position, (value, argument) in enumerate(inputs)
        ),
        tuple(
            _output(position, value, members[position], method)
            for position, (value, _) in enumerate(outputs)
            if value is not None
        ),
        method.arena_bytes[1:],
        memory,
        arenas,
        _memories(info),
    )


def _memories(info: MethodInfo | None) -> tuple[str, ...]:
    """Returns the names of declared memories; that of shared state follows the others."""
    declared = () if info is None else info.memory.memories
    state = [f"state, in {each.name}" for each in declared if each.state]
    return (*(each.name for each in declared), *state)


def _named(
    method: Method, indices: tuple[int, ...], arguments: tuple[Argument, ...], kind: str
) -> list[tuple[Value, str]]:
    known = [(each.name if kind == "input" else each.path) for each in arguments]
    names = known if len(known) == len(indices) else [f"{kind}_{number}" for number in range(len(indices))]
    return [(method.values[index], name) for index, name in zip(indices, names, strict=True)]


def _member_name(path: str) -> str:
    """Returns "logits" for "result['logits']", "result_1" for "result[1]"."""
    inner = path.removeprefix("result").strip("_[]'\".")
    return f"result_{inner}" if not inner or re.match(r"\d", inner) else inner


def _input(
    position: int,
    value: Value,
    name: str,
    method: Method,
    argument: str,
    shape: tuple[Dimension, ...] | None,
    index_of: Mapping[str, int],
) -> Input:
    if isinstance(value, Tensor):
        static = value.dynamism is Dynamism.STATIC
        if static or shape is None or len(shape) != len(value.sizes):
            shape = tuple(Dimension(size if static else 0) for size in value.sizes)
        least = tuple(map(min, zip((each.least for each in shape), value.sizes, strict=True)))
        return Input(
            position,
            name,
            name,
            _scalar_type(value, method),
            value.sizes,
            value.dim_order,
            least,
            tuple(index_of.get(each.symbol, -1) for each in shape),
            _text(value, least),
        )
    if value is None:
        return Input(position, "", "executorch::runtime::EValue()")
    if type(value) in _NUMBERS:
        return Input(position, "", f"executorch::runtime::EValue({_literal(value)})")
    raise _refusal(method, f"input {argument!r} is a {type(value).__name__}", "tensors, numbers and None")


def _output(position: int, value: Value, name: str, method: Method) -> Output:
    if isinstance(value, Tensor):
        if value.allocation is None and not value.is_constant and position not in _aliases(method):
            raise _refusal(
                method, f"output {position} has no planned memory", "plan_outputs = True, the default"
            )
        _scalar_type(value, method)
        return Output(position, name, *_TENSOR, _text(value))
    if type(value) in _NUMBERS:
        return Output(position, name, *_NUMBERS[type(value)], type(value).__name__)
    raise _refusal(method, f"output {position} is a {type(value).__name__}", "tensors, numbers and None")


def _aliases(method: Method) -> set[int]:
    """Returns the positions of outputs that are inputs."""
    return {position for position, index in enumerate(method.outputs) if index in method.inputs}


def _scalar_type(tensor: Tensor, method: Method) -> str:
    if tensor.kind.name not in _SCALAR_TYPES:
        raise _refusal(method, f"a tensor has dtype {tensor.kind.name}", ", ".join(_SCALAR_TYPES))
    return f"executorch::aten::ScalarType::{_SCALAR_TYPES[tensor.kind.name]}"


def _text(tensor: Tensor, least: tuple[int, ...] = ()) -> str:
    sizes = [
        str(size) if size == low else f"{low} to {size}"
        for low, size in zip(least or tensor.sizes, tensor.sizes, strict=True)
    ]
    text = f"{tensor.kind.name}[{', '.join(sizes)}]"
    if tensor.dynamism is not Dynamism.STATIC and not least:
        text += ", or smaller"
    if tensor.dim_order != tuple(range(len(tensor.sizes))):
        text += f", in memory in the order of dimensions {', '.join(map(str, tensor.dim_order))}"
    return text


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # The least integer has no literal.
        return f"int64_t{{{value}}}" if value > -(2**63) else "INT64_MIN"
    assert isinstance(value, float)
    special = {"inf": "HUGE_VAL", "-inf": "-HUGE_VAL", "nan": "double{NAN}"}
    return special.get(repr(value), f"double{{{value!r}}}")


def _refusal(method: Method, problem: str, expected: str) -> DelegatecError:
    return DelegatecError(
        [Diagnostic("DC519", f"a function of C++ for method {method.name!r}: {problem}", expected=expected)]
    )
