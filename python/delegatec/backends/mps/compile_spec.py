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


OPTIONS: Final[Mapping[str, OptionSpec]] = {
    "precision": OptionSpec(
        values=tuple(p.value for p in Precision),
        default=Precision.FP32.value,
        doc="fp16 stores float32 weights as float16 and computes in it; inputs and outputs stay float32",
    ),
}

# Key and one-byte value are what upstream's compiler stores; the runtime reads the graph, not the setting.
_USE_FP16: Final = "use_fp16"


def specs_for(options: Mapping[str, str]) -> list[CompileSpec]:
    """The compile specs for resolved options."""
    return [CompileSpec(_USE_FP16, bytes([options["precision"] == Precision.FP16.value]))]


def precision_of(compile_specs: Sequence[CompileSpec]) -> Precision:
    """The precision that compile specs ask for: fp32 if they do not say."""
    for spec in compile_specs:
        if spec.key == _USE_FP16:
            return Precision.FP16 if any(spec.value) else Precision.FP32
    return Precision.FP32
