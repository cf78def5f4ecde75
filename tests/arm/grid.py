# SPDX-License-Identifier: Apache-2.0
"""Graphs of one operator, from a table, and random values for their operands.

An operand is written `T[2, 3]`, of the first type of a row, or with the name of another type; `*` makes it a
constant, `:values` chooses its elements; `#2,3` is a shape, `=3:T` a constant of one element.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, RoundingMode

from delegatec.backends.arm.blob import write_blob
from delegatec.backends.arm.building.constants import int48_bytes
from delegatec.backends.arm.building.graph_builder import GraphBuilder, bound
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import STORED
from delegatec.backends.arm.settings import Settings
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.delegation.protocol.parts import join

SPECIFICATION: Final = TosaSpecification.parse(
    "TOSA-1.0+INT+FP+int16+bf16+doubleround+inexactround+fp8e4m3+fp8e5m2"
)
_OPERAND: Final = re.compile(r"(\*?)(\w+)\[([\d, ]*)\](?::(\w+))?(?: (\d+))?\Z")
_SPECIAL: Final = (
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    1.0,
    -1.0,
    3.0,
    -7.0,
    100.25,
    math.inf,
    -math.inf,
    math.nan,
)


Types = tuple[Mapping[str, str], ...]
"""Mappings as in `Case.types`."""
Forms = tuple[tuple[Sequence[str], str], ...]
"""Operands and result, as in `Case`."""


@dataclass(frozen=True)
class Case:
    """An operator on operands of some types.

    Attributes:
        operator: its name.
        types: name -> type, of operands and result.
        operands: see the module.
        result: `T[2, 3]`.
        attributes: of the operator; `Bound(x)` is a limit in the first type.
        digits: how many last digits of the significand may differ; 0 for equal bits.
        sums: whether these are the last digits of the largest result.
    """

    operator: str
    types: Mapping[str, str]
    operands: tuple[str, ...]
    result: str
    attributes: Mapping[str, Any]
    digits: int
    sums: bool

    def __str__(self) -> str:
        """Returns the name in a failure."""
        given = " ".join(f"{key}={each}" for key, each in self.attributes.items())
        types = " ".join(f"{key}={each}" for key, each in self.types.items())
        return f"{self.operator} {types} {' '.join(self.operands)} -> {self.result} {given}"


@dataclass(frozen=True)
class Bound:
    """A limit of CLAMP.

    Attributes:
        number: its value.
    """

    number: float


@dataclass(frozen=True)
class Graph:
    """A case as a graph.

    Attributes:
        blob: its FlatBuffer.
        inputs: values for its inputs.
        builder: of the graph.
    """

    blob: bytes
    inputs: tuple[torch.Tensor, ...]
    builder: GraphBuilder


def build(case: Case) -> Graph:
    """Returns the graph of a case."""
    builder = GraphBuilder(Settings(SPECIFICATION))
    inputs: list[torch.Tensor] = []
    values = [
        _operand(builder, case, text, inputs, zlib.crc32(f"{case} {index}".encode()))
        for index, text in enumerate(case.operands)
    ]
    _, kind, sizes, _, _ = _parsed(case.result)
    attributes = {
        name: bound(_scalar(each.number, case.types["T"]), _type(case, "T"))
        if isinstance(each, Bound)
        else each
        for name, each in case.attributes.items()
    }
    result = builder.emit(case.operator, *values, dtype=_type(case, kind), shape=sizes, **attributes)
    builder.outputs.append(_narrowed(builder, result) if result.dtype == DType.INT48 else result)
    return Graph(join(write_blob(builder)), tuple(inputs), builder)


def _narrowed(builder: GraphBuilder, value: Value) -> Value:
    """Returns integers of 48 bits, which are not exchanged with the reference model, as INT32."""
    scale = builder.scalar(1 << 14, DType.INT16), builder.scalar(14, DType.INT8)
    zeros = builder.int48_scalar(0), builder.scalar(0, DType.INT32)
    attributes = {"scale32": False, "rounding_mode": RoundingMode.SINGLE_ROUND}
    return builder.emit("RESCALE", value, *scale, *zeros, dtype=DType.INT32, shape=value.shape, **attributes)


def _scalar(number: float, kind: str) -> float | int:
    return int(number) if kind.startswith("INT") else number


def _parsed(text: str) -> tuple[bool, str, tuple[int, ...], str, int]:
    found = _OPERAND.match(text)
    assert found is not None, text
    sizes = tuple(int(size) for size in found[3].split(",") if size.strip())
    return bool(found[1]), found[2], sizes, found[4] or "", int(found[5] or 0)


def _type(case: Case, name: str) -> int:
    return int(getattr(DType, case.types.get(name, name)))


def _operand(builder: GraphBuilder, case: Case, text: str, inputs: list[torch.Tensor], seed: int) -> Value:
    if text.startswith("#"):
        return builder.shape([int(each) for each in text[1:].split(",") if each])
    if text.startswith("="):
        number, _, kind = text[1:].partition(":")
        dtype = _type(case, kind)
        if dtype == DType.INT48:
            return builder.int48_scalar(int(number))
        return builder.tensor(torch.tensor([float(number)]).to(STORED[dtype]), dtype)
    is_constant, kind, sizes, values, limit = _parsed(text)
    dtype = _type(case, kind)
    tensor = elements(dtype, sizes, values, limit, torch.Generator().manual_seed(seed))
    if not is_constant:
        inputs.append(tensor)
        value = Value(f"input.{len(inputs)}", dtype, sizes)
        builder.inputs.append(value)
        return value
    if dtype == DType.INT48:
        return Value(f"wide.{seed}", dtype, sizes, int48_bytes(tensor), None, True)
    return builder.tensor(tensor, dtype)


def elements(
    dtype: int, sizes: Sequence[int], values: str, limit: int, random: torch.Generator
) -> torch.Tensor:
    """Returns random elements of a type; integers of 48 bits as int64.

    Args:
        dtype: the type.
        sizes: of the tensor.
        values: "" and "usual"; "special" for NaN, infinities, zeros and halves; "extreme" without NaN;
            "positive"; "small" for few digits, with exact sums; "index", "unique" or "shift", below `limit`;
            "nonzero"; "full" for all values of an integer type; "multiplier" and "scale" of RESCALE.
        limit: see `values`.
        random: of the elements.
    """
    if values == "unique":
        keys = torch.rand((*sizes[:-1], limit), generator=random)
        return keys.argsort(-1)[..., : sizes[-1]].to(STORED[dtype])
    if values in ("index", "shift"):
        return torch.randint(0, limit, sizes, generator=random).to(STORED[dtype])
    if values == "multiplier":
        return torch.randint(1 << 14, 1 << 15, sizes, generator=random).to(STORED[dtype])
    if values == "scale":
        return torch.randint(16, 24, sizes, generator=random).to(STORED[dtype])
    if dtype == DType.BOOL:
        return torch.rand(sizes, generator=random) < 0.5
    if dtype in (DType.INT48, DType.INT32, DType.INT16, DType.INT8):
        return _integers(dtype, sizes, values, random)
    if values in ("special", "extreme"):
        chosen = _SPECIAL[: len(_SPECIAL) - (values == "extreme")]
        found = torch.tensor(chosen)[torch.randint(0, len(chosen), sizes, generator=random)]
    elif values == "small":
        found = torch.randint(-4, 5, sizes, generator=random) / 4
    else:
        found = torch.randn(sizes, generator=random) * 2
        found = found.abs() + 0.05 if values == "positive" else found
    return found.to(STORED[dtype])


def _integers(dtype: int, sizes: Sequence[int], values: str, random: torch.Generator) -> torch.Tensor:
    bits = {DType.INT8: 8, DType.INT16: 16, DType.INT32: 32, DType.INT48: 48}[dtype]
    # sums and products of usual INT32 are INT32
    wide = {32: 15, 48: 32}.get(bits, bits) if values != "full" else bits
    half = 4 if values == "small" else 1 << wide - 1
    found = torch.randint(-half, half, sizes, generator=random)
    if values == "nonzero":
        found = torch.where(found == 0, 3, found)
    return found.to(STORED.get(dtype, torch.int64))


def cases(rows: Sequence[Row]) -> Iterator[Case]:
    """Yields the cases of rows."""
    for row in rows:
        for operator in row.operators.split():
            for types in row.types:
                for operands, result in row.forms:
                    for attributes in row.attributes:
                        yield Case(operator, types, tuple(operands), result, attributes, row.digits, row.sums)


@dataclass(frozen=True)
class Row:
    """Operators, each with all combinations of types, forms and attributes.

    Attributes:
        operators: names.
        types: see `Case`.
        forms: operands, result.
        attributes: see `Case`.
        digits: see `Case`.
        sums: see `Case`.
    """

    operators: str
    types: Types
    forms: Forms
    attributes: tuple[Mapping[str, Any], ...] = ({},)
    digits: int = 0
    sums: bool = False


def of(names: str, **others: str) -> tuple[Mapping[str, str], ...]:
    """Returns one mapping of types for each name: T is this type, others as given."""
    return tuple(
        {"T": name, **{key: value.replace("T", name) for key, value in others.items()}}
        for name in names.split()
    )
