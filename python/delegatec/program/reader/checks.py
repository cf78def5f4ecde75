# SPDX-License-Identifier: Apache-2.0
"""Checks of a program's indices into itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.model import (
    DelegateCall,
    FreeCall,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    Method,
    MoveCall,
    Program,
    Tensor,
    TensorList,
)

# A damaged file may violate thousands of rules; the first ones are enough.
_MAX_PROBLEMS = 20


def check_program(program: Program) -> None:
    """Checks a program that was read.

    Raises:
        DelegatecError: DC353, one diagnostic for each invalid index, up to a limit.
    """
    messages: list[str] = []
    if not program.methods:
        messages.append("the program has no methods")
    names = [method.name for method in program.methods]
    messages += sorted({f"duplicate method {name!r}" for name in names if names.count(name) > 1})
    for method in program.methods:
        for message in _problems(method):
            messages.append(f"method {method.name!r}: {message}")
            if len(messages) >= _MAX_PROBLEMS:
                break
    if messages:
        raise DelegatecError(
            Diagnostic(code="DC353", message=message, help="the file is damaged, or its writer is faulty")
            for message in messages[:_MAX_PROBLEMS]
        )


def _problems(method: Method) -> Iterator[str]:
    values = method.values
    yield from _outside("input", method.inputs, len(values), "values")
    yield from _outside("output", method.outputs, len(values), "values")
    for index, value in enumerate(values):
        if isinstance(value, IntList):
            yield from _wrong_items(f"list {index}", value.items, method, int)
        elif isinstance(value, TensorList):
            items = [item for item in value.items if item is not None]
            yield from _wrong_items(f"list {index}", items, method, Tensor)
    if not method.chains:
        yield "no chain of instructions"
    for chain in method.chains:
        for index, instruction in enumerate(chain.instructions):
            for problem in _instruction(instruction, method, len(chain.instructions)):
                yield f"instruction {index}: {problem}"


def _instruction(instruction: Instruction, method: Method, length: int) -> Iterator[str]:
    values = len(method.values)
    match instruction:
        case KernelCall():
            yield from _outside("operator", [instruction.operator], len(method.operators), "operators")
            yield from _outside("argument", instruction.args, values, "values")
        case DelegateCall():
            yield from _outside("delegate", [instruction.delegate], len(method.delegates), "delegates")
            yield from _outside("argument", instruction.args, values, "values")
        case MoveCall():
            yield from _outside("value", [instruction.source, instruction.target], values, "values")
        case JumpFalseCall():
            yield from _outside("condition", [instruction.condition], values, "values")
            yield from _outside("destination", [instruction.destination], length + 1, "instructions")
        case FreeCall():
            yield from _outside("value", [instruction.value], values, "values")


def _outside(what: str, indices: Iterable[int], count: int, of: str) -> Iterator[str]:
    for index in indices:
        if not 0 <= index < count:
            yield f"{what} {index} is out of range: the method has {count} {of}"


def _wrong_items(what: str, items: Iterable[int], method: Method, expected: type) -> Iterator[str]:
    for item in items:
        if not 0 <= item < len(method.values):
            yield f"{what}: item {item} is out of range: the method has {len(method.values)} values"
        elif type(method.values[item]) is not expected:
            yield f"{what}: item {item} is not of type {expected.__name__}"
