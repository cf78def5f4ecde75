# SPDX-License-Identifier: Apache-2.0
"""Settings of the MPS backend. The runtime ignores them: it reads everything from the graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from delegatec.backends.common.settings import (
    OVERFLOW,
    PRECISION,
    Overflow,
    Precision,
    Setting,
    SettingsCodec,
)


class Int4(Enum):
    """The storage of 4-bit weights."""

    INT8 = "int8"
    PACKED = "packed"


@dataclass(frozen=True)
class Settings:
    """A user's settings.

    Attributes:
        precision: the dtype in which float32 values are computed.
        int4: the storage of 4-bit weights.
        overflow: the treatment of constants out of float16's range, with `fp16`.
    """

    precision: Precision = Precision.FP32
    int4: Int4 = Int4.INT8
    overflow: Overflow = Overflow.ERROR


CODEC: Final = SettingsCodec(
    "MPSBackend",
    Settings(),
    {
        # Key and one-byte value are those of upstream's compiler.
        "precision": replace(
            PRECISION, key="use_fp16", values={Precision.FP32: b"\0", Precision.FP16: b"\1"}
        ),
        "int4": Setting(
            "int8 stores weights that are quantized to four bits in a byte each, for every system; packed "
            "stores two in a byte, for macOS 15 and iOS 18 or later, and computes such weights in float16"
        ),
        "overflow": OVERFLOW,
    },
)
