# SPDX-License-Identifier: Apache-2.0
"""Settings of the MPS backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from delegatec.delegation.backend import OptionSpec
from delegatec.delegation.compile_spec import CompileSpec


class Precision(Enum):
    """What a delegate computes float32 values in."""

    FP32 = "fp32"
    FP16 = "fp16"


class Int4(Enum):
    """How weights of four bits are stored."""

    INT8 = "int8"
    PACKED = "packed"


OPTIONS: Final[Mapping[str, OptionSpec]] = {
    "precision": OptionSpec(
        values=tuple(p.value for p in Precision),
        default=Precision.FP32.value,
        doc="fp16 stores float32 weights as float16 and computes in it; inputs and outputs stay float32",
    ),
    "int4": OptionSpec(
        values=tuple(i.value for i in Int4),
        default=Int4.INT8.value,
        doc="int8 stores weights that are quantised to four bits in a byte each, for every system; packed "
        "stores two in a byte, for macOS 15 and iOS 18 or later, and computes such weights in float16",
    ),
}

# Key and one-byte value are what upstream's compiler stores; the runtime reads the graph, not the setting.
_USE_FP16: Final = "use_fp16"
# Ours. It is there only where it is not the default, so that other programs stay as they are.
_INT4: Final = "int4"


def specs_for(options: Mapping[str, str]) -> list[CompileSpec]:
    """The compile specs for resolved options."""
    specs = [CompileSpec(_USE_FP16, bytes([options["precision"] == Precision.FP16.value]))]
    if options["int4"] == Int4.PACKED.value:
        specs.append(CompileSpec(_INT4, Int4.PACKED.value.encode()))
    return specs


def precision_of(compile_specs: Sequence[CompileSpec]) -> Precision:
    """The precision that compile specs ask for: fp32 if they do not say."""
    for spec in compile_specs:
        if spec.key == _USE_FP16:
            return Precision.FP16 if any(spec.value) else Precision.FP32
    return Precision.FP32


def int4_of(compile_specs: Sequence[CompileSpec]) -> Int4:
    """How compile specs ask for weights of four bits to be stored: in a byte each if they do not say."""
    packed = any(spec == CompileSpec(_INT4, Int4.PACKED.value.encode()) for spec in compile_specs)
    return Int4.PACKED if packed else Int4.INT8
