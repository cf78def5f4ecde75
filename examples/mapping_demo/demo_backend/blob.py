# SPDX-License-Identifier: Apache-2.0
"""The format of the blob: a line of text, followed by the weights.

    "DEMO"  size of the text (uint32, little endian)  text  weights

The text is ASCII, padded with spaces so that the weights start at a multiple of 16. Each part ends with #:

    number of instructions # instructions # number of inputs # outputs # shapes of the weights #

An instruction is `operation,identifier,operand,...;`. The device reports the identifier when it has run the
instruction. An operand is a value `v0`, a weight `w0` or a number `n0`. Values count from 0, inputs first,
then the result of each instruction. The integers of a convolution are stride, padding and dilation, each for
height and width, and groups. For example, a single convolution with a bias:

    1#conv_relu_op,0,v0,w0,w1,n1,n1,n0,n0,n1,n1,n1;#1#v1;#4x3x3x3;4;#

Weights are float32, little endian, one after another.
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
    """An instruction.

    Attributes:
        operation: a key of `OPERANDS`.
        identifier: the identifier that the device reports.
        operands: a letter and an integer for each.
    """

    operation: str
    identifier: int
    operands: tuple[str, ...]

    def integers(self, kind: str) -> list[int]:
        """Returns the integers of the operands of one kind."""
        return [int(operand[1:]) for operand in self.operands if operand[0] == kind]


@dataclass(frozen=True)
class Blob:
    """The contents of a blob.

    Attributes:
        num_inputs: number of inputs.
        instructions: the instructions in execution order.
        outputs: indices of the returned values.
        weights: float32.
    """

    num_inputs: int
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    weights: tuple[torch.Tensor, ...]

    def text(self) -> str:
        """Returns the readable form, one instruction per line."""
        lines = [f"{self.num_inputs} input(s)"]
        for position, instruction in enumerate(self.instructions):
            operands = " ".join(instruction.operands)
            result = f"v{self.num_inputs + position}"
            lines.append(f"{result} = {instruction.operation} {operands}  [{instruction.identifier}]")
        lines.append("returns " + " ".join(f"v{output}" for output in self.outputs))
        return "\n".join(lines) + "\n"


def write_blob(blob: Blob) -> list[bytes | memoryview]:
    """Returns the parts of a blob. Weights are views: only the program's writer copies them."""
    texts = (",".join((i.operation, str(i.identifier), *i.operands)) for i in blob.instructions)
    sections = [
        str(len(blob.instructions)),
        "".join(f"{instruction};" for instruction in texts),
        str(blob.num_inputs),
        "".join(f"v{output};" for output in blob.outputs),
        "".join("x".join(map(str, weight.shape)) + ";" for weight in blob.weights),
    ]
    text = "".join(f"{section}#" for section in sections).encode()
    text += b" " * (-(_HEADER.size + len(text)) % ALIGNMENT)
    weights = [weight.contiguous().numpy().data.cast("B") for weight in blob.weights]
    return [_HEADER.pack(MAGIC, len(text)) + text, *weights]


def read_blob(data: memoryview) -> Blob:
    """Reads an untrusted blob.

    Raises:
        DelegatecError: DC407, it is not a blob of this backend, or is damaged.
    """
    try:
        return _read(data)
    except ValueError as error:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC407",
                    f"the blob of the mapping demo is damaged: {error}",
                    expected="a blob written by this backend",
                )
            ]
        ) from error


def _read(data: memoryview) -> Blob:
    if len(data) < _HEADER.size:
        raise ValueError("the header is truncated")
    magic, size = _HEADER.unpack_from(data)
    start = _HEADER.size + size
    if magic != MAGIC or start > len(data) or start % ALIGNMENT:
        raise ValueError("invalid header")
    text = str(data[_HEADER.size : start], "ascii")
    match = re.fullmatch(r"([0-9]+)#([^#]*)#([0-9]+)#([^#]*)#([^#]*)# *", text)
    if match is None:
        raise ValueError("the text does not have five parts")
    count, texts, num_inputs, outputs, shapes = match.groups()
    weights = tuple(_weights(shapes, data[start:]))
    instructions = tuple(map(_instruction, _items(texts)))
    if len(instructions) != int(count):
        raise ValueError(f"{len(instructions)} instructions, but the header specifies {count}")
    blob = Blob(int(num_inputs), instructions, tuple(map(_output, _items(outputs))), weights)
    _check_indices(blob)
    return blob


def _items(text: str) -> list[str]:
    if text and not text.endswith(";"):
        raise ValueError("a list is not terminated by ;")
    return text.split(";")[:-1]


def _instruction(text: str) -> Instruction:
    match = re.fullmatch(r"([a-z_]+),([0-9]+)((?:,[vwn][0-9]+)*)", text)
    if match is None or match[1] not in OPERANDS:
        raise ValueError(f"invalid instruction {text!r}")
    operands = tuple(match[3].split(",")[1:])
    if not OPERANDS[match[1]].fullmatch("".join(operand[0] for operand in operands)):
        raise ValueError(f"{match[1]} does not support {', '.join(operands)}")
    return Instruction(match[1], int(match[2]), operands)


def _output(text: str) -> int:
    if not re.fullmatch(r"v[0-9]+", text):
        raise ValueError(f"invalid value {text!r}")
    return int(text[1:])


def _weights(shapes: str, data: memoryview) -> Iterator[torch.Tensor]:
    start = 0
    for text in _items(shapes):
        if not re.fullmatch(r"[0-9]+(x[0-9]+)*", text):
            raise ValueError(f"invalid shape {text!r}")
        shape = tuple(map(int, text.split("x")))
        end = start + _FLOAT_BYTES * math.prod(shape)
        if end > len(data) or end == start:
            raise ValueError("the weights are truncated")
        yield torch.frombuffer(bytearray(data[start:end]), dtype=torch.float32).reshape(shape)
        start = end
    if start != len(data):
        raise ValueError("trailing bytes after the weights")


def _check_indices(blob: Blob) -> None:
    """Checks that each instruction reads only values defined before it."""
    for position, instruction in enumerate(blob.instructions):
        if max(instruction.integers("v")) >= blob.num_inputs + position:
            raise ValueError(f"{instruction.operation} reads an undefined value")
        if instruction.integers("w") and max(instruction.integers("w")) >= len(blob.weights):
            raise ValueError(f"{instruction.operation} reads a missing weight")
        if instruction.operation == "conv_relu_op":
            _check_convolution(instruction, [blob.weights[number] for number in instruction.integers("w")])
    if blob.outputs and max(blob.outputs) >= blob.num_inputs + len(blob.instructions):
        raise ValueError("an output is undefined")
    if len({instruction.identifier for instruction in blob.instructions}) != len(blob.instructions):
        raise ValueError("duplicate identifiers of instructions")


def _check_convolution(instruction: Instruction, weights: list[torch.Tensor]) -> None:
    *window, groups = instruction.integers("n")
    stride, dilation = window[:2], window[4:]
    if min(*stride, *dilation, groups) < 1:
        raise ValueError("a convolution has a stride, a dilation or a number of groups below 1")
    shape = weights[0].shape
    if len(shape) != 4 or shape[0] % groups or any(bias.shape != shape[:1] for bias in weights[1:]):
        raise ValueError("the weights of a convolution do not match")
