# SPDX-License-Identifier: Apache-2.0
"""Small TOSA graphs on both sides of each limit of Ethos-U, and whether Vela compiles them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.blob import write_blob
from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import REGIONS, Value
from delegatec.backends.arm.settings import Settings
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.delegation import Part

SPECIFICATION: Final = TosaSpecification.parse("TOSA-1.0+INT+int16+int4+cf")
_BITS: Final = {"BOOL": 8, "INT4": 4, "INT8": 8, "INT16": 16, "INT32": 32, "INT48": 48}
_VALUE: Final = re.compile(r"(\*?)(\w+)\[([\d, ]*)\]\Z")


@dataclass(frozen=True)
class Case:
    """A graph of one operator, and of a RESCALE of its result if `rescaled`.

    Attributes:
        verdicts: of U55 and U65, and of U85. "yes": Vela compiles it, and so do we; "no": neither; "limit":
            Vela compiles it although it is beyond a documented limit, so we do not.
        name: of the operator.
        operands: `INT8[1, 4]`, an input; `*INT8[1, 4]`, a constant of zeros; `#1,2`, a shape; `=3:INT8`, a
            constant of one element.
        result: `INT8[1, 4]`.
        attributes: of the operator.
        rescaled: the type to which the result is rescaled; empty if it is the output of the graph.
    """

    verdicts: tuple[str, str]
    name: str
    operands: tuple[str, ...]
    result: str
    attributes: dict[str, Any]
    rescaled: str = ""

    def __str__(self) -> str:
        """Returns the name of its test."""
        given = " ".join(f"{key}={each}" for key, each in self.attributes.items())
        return f"{self.name} {' '.join(self.operands)} {given} {self.rescaled}".replace(", ", ",").strip()


def build(case: Case) -> GraphBuilder:
    """Returns the graph of a case."""
    builder = GraphBuilder(Settings(SPECIFICATION))
    values = [_operand(builder, text) for text in case.operands]
    dtype, shape = _parsed(case.result)
    value = builder.emit(case.name, *values, dtype=dtype, shape=shape, **case.attributes)
    for name in case.attributes.values() if case.name in REGIONS else ():
        builder.bodies[name] = _copying(builder, builder.inputs[case.name == "COND_IF" :])
    if case.rescaled:
        value = _rescaled(builder, value, getattr(DType, case.rescaled))
    builder.outputs.append(value)
    return builder


def _copying(outer: GraphBuilder, operands: Sequence[Value]) -> GraphBuilder:
    """Returns a body that returns its operands."""
    body = GraphBuilder(outer.settings, outer=outer)
    for operand in operands:
        scalar = len(body.inputs)
        body.inputs.append(Value(f"b{len(outer.bodies)}.{scalar}", operand.dtype, operand.shape))
        body.outputs.append(body.emit("IDENTITY", body.inputs[-1], shape=operand.shape))
    return body


def blob(case: Case) -> list[Part]:
    """Returns the TOSA graph of a case."""
    return write_blob(build(case))


def _parsed(text: str) -> tuple[int, tuple[int, ...]]:
    found = _VALUE.match(text)
    assert found is not None, text
    return getattr(DType, found[2]), tuple(int(size) for size in found[3].split(",") if size.strip())


def _operand(builder: GraphBuilder, text: str) -> Value:
    if text.startswith("#"):
        return builder.shape([int(each) for each in text[1:].split(",") if each])
    if text.startswith("="):
        scalar, name = text[1:].split(":")
        return builder.scalar(int(scalar), getattr(DType, name))
    dtype, shape = _parsed(text)
    if text.startswith("*"):
        size = -(-math.prod(shape) * _BITS[text[1 : text.index("[")]] // 8)
        return Value(f"c{len(builder.inputs)}{text}", dtype, shape, bytes(size), None, True)
    value = Value(f"x{len(builder.inputs)}", dtype, shape)
    builder.inputs.append(value)
    return value


def _rescaled(builder: GraphBuilder, value: Value, dtype: int) -> Value:
    wide = value.dtype == DType.INT48
    multiplier, shift = (1 << 14, 30) if wide else (1 << 30, 38)
    operands = [
        builder.tensor(torch.tensor([multiplier], dtype=torch.int16 if wide else torch.int32)),
        builder.scalar(shift, DType.INT8),
        _zero(value.dtype),
        _zero(dtype),
    ]
    return builder.emit(
        "RESCALE",
        value,
        *operands,
        dtype=dtype,
        shape=value.shape,
        scale32=not wide,
        rounding_mode=1,
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )


def _zero(dtype: int) -> Value:
    names = {getattr(DType, name): bits // 8 for name, bits in _BITS.items()}
    return Value(f"zero{dtype}", dtype, (1,), bytes(names[dtype]), (0,), True)


def shaped(name: str, sizes: Sequence[int]) -> str:
    """Returns the text of an operand, such as `INT8[1, 4]`."""
    return f"{name}[{', '.join(map(str, sizes))}]"


YES: Final = ("yes", "yes")
"""Supported by all families."""
LARGE: Final = ("no", "yes")
"""Supported by U85 alone."""
LIMIT: Final = ("limit", "yes")
"""Beyond a documented limit of U55 and U65."""
NO: Final = ("no", "no")
"""Supported by no family."""
