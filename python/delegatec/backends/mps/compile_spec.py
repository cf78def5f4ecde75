# SPDX-License-Identifier: Apache-2.0
"""Settings of the MPS backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from delegatec.delegation.protocol.backend import OptionSpec
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic


class Precision(Enum):
    """What a delegate computes float32 values in."""

    FP32 = "fp32"
    FP16 = "fp16"


class Int4(Enum):
    """How weights of four bits are stored."""

    INT8 = "int8"
    PACKED = "packed"


class Overflow(Enum):
    """What becomes of numbers that float16 cannot hold."""

    ERROR = "error"
    SATURATE = "saturate"


@dataclass(frozen=True)
class Settings:
    """What a user chose.

    Attributes:
        precision: what float32 values are computed in.
        int4: how weights of four bits are stored.
        overflow: what becomes of constants beyond float16, with `fp16`.
    """

    precision: Precision = Precision.FP32
    int4: Int4 = Int4.INT8
    overflow: Overflow = Overflow.ERROR


OPTIONS: Final[Mapping[str, OptionSpec]] = {
    "precision": OptionSpec(
        values=tuple(p.value for p in Precision),
        default=Precision.FP32.value,
        doc="fp16 stores float32 weights as float16 and computes in it; inputs and outputs stay float32",
    ),
    "int4": OptionSpec(
        values=tuple(i.value for i in Int4),
        default=Int4.INT8.value,
        doc="int8 stores weights that are quantized to four bits in a byte each, for every system; packed "
        "stores two in a byte, for macOS 15 and iOS 18 or later, and computes such weights in float16",
    ),
    "fp16_overflow": OptionSpec(
        values=tuple(o.value for o in Overflow),
        default=Overflow.ERROR.value,
        doc="with fp16, error rejects weights and constants beyond +-65504, saturate clamps them to that "
        "range; the lowest and highest float32 are always clamped",
    ),
}

# Key and one-byte value are what upstream's compiler stores; the runtime reads the graph, not the setting.
_USE_FP16: Final = "use_fp16"
# Ours. They are there only where they are not the default, so that other programs stay as they are.
_INT4: Final = "int4"
_OVERFLOW: Final = "fp16_overflow"
# Key of a compile spec -> the field of the settings, and what its values mean.
_FIELDS: Final[Mapping[str, tuple[str, Mapping[bytes, Enum]]]] = {
    _USE_FP16: ("precision", {b"\0": Precision.FP32, b"\1": Precision.FP16}),
    _INT4: ("int4", {i.value.encode(): i for i in Int4}),
    _OVERFLOW: ("overflow", {o.value.encode(): o for o in Overflow}),
}


def specs_for(options: Mapping[str, str]) -> list[CompileSpec]:
    """The compile specs for resolved options."""
    specs = [CompileSpec(_USE_FP16, bytes([options["precision"] == Precision.FP16.value]))]
    for key in (_INT4, _OVERFLOW):
        if options[key] != OPTIONS[key].default:
            specs.append(CompileSpec(key, options[key].encode()))
    return specs


def settings_of(compile_specs: Sequence[CompileSpec]) -> Settings:
    """The settings that compile specs ask for; the defaults where they do not say.

    Raises:
        DelegatecError: DC402, for every setting that there is not, and every value that it does not take.
    """
    found: dict[str, Any] = {}
    problems = []
    for spec in compile_specs:
        field, values = _FIELDS.get(spec.key, ("", {}))
        if not field:
            expected = ", ".join(_FIELDS)
            problems.append(
                Diagnostic("DC402", f"MPSBackend has no compile spec {spec.key!r}", expected=expected)
            )
        elif bytes(spec.value) not in values:
            message = f"compile spec {spec.key!r} of MPSBackend is {bytes(spec.value)!r}"
            problems.append(Diagnostic("DC402", message, expected=" or ".join(map(repr, values))))
        else:
            found[field] = values[bytes(spec.value)]
    if problems:
        raise DelegatecError(problems)
    return replace(Settings(), **found)
