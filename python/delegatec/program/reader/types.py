# SPDX-License-Identifier: Apache-2.0
"""Scalar types of the `.pte` format, with their torch names and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from delegatec_schemas.program import ScalarType


@dataclass(frozen=True)
class ScalarKind:
    """A dtype of the file format.

    Attributes:
        name: its name in torch, such as "float32"; an attribute of the `torch` module.
        itemsize: number of bytes per element.
    """

    name: str
    itemsize: int


# Values and meanings are those of c10::ScalarType. Types with less than one byte per element are missing: no
# kernel of the runtime supports them.
SCALAR_KINDS: dict[int, ScalarKind] = {
    ScalarType.BYTE: ScalarKind("uint8", 1),
    ScalarType.CHAR: ScalarKind("int8", 1),
    ScalarType.SHORT: ScalarKind("int16", 2),
    ScalarType.INT: ScalarKind("int32", 4),
    ScalarType.LONG: ScalarKind("int64", 8),
    ScalarType.HALF: ScalarKind("float16", 2),
    ScalarType.FLOAT: ScalarKind("float32", 4),
    ScalarType.DOUBLE: ScalarKind("float64", 8),
    ScalarType.BOOL: ScalarKind("bool", 1),
    ScalarType.QINT8: ScalarKind("qint8", 1),
    ScalarType.QUINT8: ScalarKind("quint8", 1),
    ScalarType.QINT32: ScalarKind("qint32", 4),
    ScalarType.BFLOAT16: ScalarKind("bfloat16", 2),
    ScalarType.BITS16: ScalarKind("bits16", 2),
    ScalarType.FLOAT8E5M2: ScalarKind("float8_e5m2", 1),
    ScalarType.FLOAT8E4M3FN: ScalarKind("float8_e4m3fn", 1),
    ScalarType.FLOAT8E5M2FNUZ: ScalarKind("float8_e5m2fnuz", 1),
    ScalarType.FLOAT8E4M3FNUZ: ScalarKind("float8_e4m3fnuz", 1),
    ScalarType.UINT16: ScalarKind("uint16", 2),
    ScalarType.UINT32: ScalarKind("uint32", 4),
    ScalarType.UINT64: ScalarKind("uint64", 8),
}
