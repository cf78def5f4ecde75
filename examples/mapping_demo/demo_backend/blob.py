# SPDX-License-Identifier: Apache-2.0
"""The format of the blob: a line of text, and the weights behind it.

    "DEMO"  size of the text (uint32, little endian)  text  weights

The text is ASCII, filled up with spaces so that the weights start at a multiple of 16. Its parts end with #:

    number of instructions # instructions # number of inputs # outputs # shapes of the weights #

An instruction is `operation,identifier,operand,...;`. The identifier is what the device reports when it has
run the instruction. An operand is a value `v0`, a weight `w0` or a number `n0`. Values count from 0, inputs
first, then the result of each instruction. The numbers of a convolution are stride, padding and dilation,
each of height and width, and groups. One with a bias, alone:

    1#conv_relu_op,0,v0,w0,w1,n1,n1,n0,n0,n1,n1,n1;#1#v1;#4x3x3x3;4;#

Weights are float32, little endian, one after the other.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic

MAGIC: Final = b"DEMO"
ALIGNMENT: Final = 16
_HEADER: Final = struct.Struct("<4sI")
_FLOAT_BYTES: Final = 4

# Operation -> the kinds of its operands: `v` a value, `w` a weight, `n` a number.
OPERANDS: Final = {
    "conv_relu_op": re.compile(r"vww?nnnnnnn"),
    "sin_decomp_from_tan": re.compile(r"v"),
    "cos_decomp_from_tan": re.compile(r"v"),
    "div_decomp_from_tan": re.compile(r"vv"),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        operation: a key of `OPERANDS`.
        identifier: what the device reports.
        operands: a letter and a number each.
    """

    operation: str
    identifier: int
    operands: tuple[str, ...]

    def numbers(self, kind: str) -> list[int]:
        """The numbers of the operands of one kind."""
        return [int(operand[1:]) for operand in self.operands if operand[0] == kind]


@dataclass(frozen=True)
class Blob:
    """What a blob says.

    Attributes:
        num_inputs: how many values it is given.
        instructions: in the order in which they run.
        outputs: numbers of the values that it returns.
        weights: float32.
    """

    num_inputs: int
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    weights: tuple[torch.Tensor, ...]

    def text(self) -> str:
        """An instruction a line, for people."""
        lines = [f"{self.num_inputs} input(s)"]
        for position, step in enumerate(self.instructions):
            operands = " ".join(step.operands)
            lines.append(f"v{self.num_inputs + position} = {step.operation} {operands}  [{step.identifier}]")
        lines.append("returns " + " ".join(f"v{output}" for output in self.outputs))
        return "\n".join(lines) + "\n"


def write_blob(blob: Blob) -> list[bytes | memoryview]:
    """The parts of a blob. Weights are views of where they are: only the program's writer copies them."""
    steps = (",".join((i.operation, str(i.identifier), *i.operands)) for i in blob.instructions)
    sections = [
        str(len(blob.instructions)),
        "".join(f"{step};" for step in steps),
        str(blob.num_inputs),
        "".join(f"v{output};" for output in blob.outputs),
        "".join("x".join(map(str, weight.shape)) + ";" for weight in blob.weights),
    ]
    text = "".join(f"{section}#" for section in sections).encode()
    text += b" " * (-(_HEADER.size + len(text)) % ALIGNMENT)
    weights = [weight.contiguous().numpy().data.cast("B") for weight in blob.weights]
    return [_HEADER.pack(MAGIC, len(text)) + text, *weights]


def read_blob(data: memoryview) -> Blob:
    """Reads a blob, and trusts no byte of it.

    Raises:
        DelegatecError: DC407, it is no blob of this backend, or a damaged one.
    """
    try:
        return _read(data)
    except ValueError as error:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC407", f"the blob of the mapping demo is damaged: {error}", expected="what it wrote"
                )
            ]
        ) from error


def _read(data: memoryview) -> Blob:
    if len(data) < _HEADER.size:
        raise ValueError("it ends in its header")
    magic, size = _HEADER.unpack_from(data)
    start = _HEADER.size + size
    if magic != MAGIC or start > len(data) or start % ALIGNMENT:
        raise ValueError("its header is wrong")
    text = str(data[_HEADER.size : start], "ascii")
    match = re.fullmatch(r"([0-9]+)#([^#]*)#([0-9]+)#([^#]*)#([^#]*)# *", text)
    if match is None:
        raise ValueError("its text has not five parts")
    count, steps, num_inputs, outputs, shapes = match.groups()
    weights = tuple(_weights(shapes, data[start:]))
    instructions = tuple(map(_instruction, _items(steps)))
    if len(instructions) != int(count):
        raise ValueError(f"it has {len(instructions)} instructions, and says {count}")
    blob = Blob(int(num_inputs), instructions, tuple(map(_output, _items(outputs))), weights)
    _check_numbers(blob)
    return blob


def _items(text: str) -> list[str]:
    if text and not text.endswith(";"):
        raise ValueError("a list does not end with ;")
    return text.split(";")[:-1]


def _instruction(text: str) -> Instruction:
    match = re.fullmatch(r"([a-z_]+),([0-9]+)((?:,[vwn][0-9]+)*)", text)
    if match is None or match[1] not in OPERANDS:
        raise ValueError(f"{text!r} is no instruction")
    operands = tuple(match[3].split(",")[1:])
    if not OPERANDS[match[1]].fullmatch("".join(operand[0] for operand in operands)):
        raise ValueError(f"{match[1]} does not take {', '.join(operands)}")
    return Instruction(match[1], int(match[2]), operands)


def _output(text: str) -> int:
    if not re.fullmatch(r"v[0-9]+", text):
        raise ValueError(f"{text!r} is no value")
    return int(text[1:])


def _weights(shapes: str, data: memoryview) -> Iterator[torch.Tensor]:
    start = 0
    for text in _items(shapes):
        if not re.fullmatch(r"[0-9]+(x[0-9]+)*", text):
            raise ValueError(f"{text!r} is no shape")
        shape = tuple(map(int, text.split("x")))
        end = start + _FLOAT_BYTES * math.prod(shape)
        if end > len(data) or end == start:
            raise ValueError("its weights are cut off")
        yield torch.frombuffer(bytearray(data[start:end]), dtype=torch.float32).reshape(shape)
        start = end
    if start != len(data):
        raise ValueError("there is something behind its weights")


def _check_numbers(blob: Blob) -> None:
    """Each instruction reads what is there by then."""
    for position, step in enumerate(blob.instructions):
        if max(step.numbers("v")) >= blob.num_inputs + position:
            raise ValueError(f"{step.operation} reads a value that comes after it")
        if step.numbers("w") and max(step.numbers("w")) >= len(blob.weights):
            raise ValueError(f"{step.operation} reads a weight that is not there")
        if step.operation == "conv_relu_op":
            _check_convolution(step, [blob.weights[number] for number in step.numbers("w")])
    if blob.outputs and max(blob.outputs) >= blob.num_inputs + len(blob.instructions):
        raise ValueError("it returns a value that nothing computes")
    if len({step.identifier for step in blob.instructions}) != len(blob.instructions):
        raise ValueError("two instructions have the same identifier")


def _check_convolution(step: Instruction, weights: list[torch.Tensor]) -> None:
    *window, groups = step.numbers("n")
    stride, dilation = window[:2], window[4:]
    if min(*stride, *dilation, groups) < 1:
        raise ValueError("a convolution has a stride, a dilation or a number of groups below 1")
    shape = weights[0].shape
    if len(shape) != 4 or shape[0] % groups or any(bias.shape != shape[:1] for bias in weights[1:]):
        raise ValueError("the weights of a convolution do not fit each other")
