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
    """The dtype in which a delegate computes float32 values."""

    FP32 = "fp32"
    FP16 = "fp16"


class Int4(Enum):
    """The storage of 4-bit weights."""

    INT8 = "int8"
    PACKED = "packed"


class Overflow(Enum):
    """The treatment of numbers beyond float16."""

    ERROR = "error"
    SATURATE = "saturate"


@dataclass(frozen=True)
class Settings:
    """A user's settings.

    Attributes:
        precision: the dtype in which float32 values are computed.
        int4: the storage of 4-bit weights.
        overflow: the treatment of constants beyond float16, with `fp16`.
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

# Key and one-byte value are those of upstream's compiler; the runtime reads the graph, not the setting.
_USE_FP16: Final = "use_fp16"
# Ours. Defaults are not stored.
_INT4: Final = "int4"
_OVERFLOW: Final = "fp16_overflow"
# Key of a compile spec -> the field of the settings, and what its values mean.
_FIELDS: Final[Mapping[str, tuple[str, Mapping[bytes, Enum]]]] = {
    _USE_FP16: ("precision", {b"\0": Precision.FP32, b"\1": Precision.FP16}),
    _INT4: ("int4", {i.value.encode(): i for i in Int4}),
    _OVERFLOW: ("overflow", {o.value.encode(): o for o in Overflow}),
}


def specs_for(options: Mapping[str, str]) -> list[CompileSpec]:
    """Returns the compile specs for resolved options."""
    specs = [CompileSpec(_USE_FP16, bytes([options["precision"] == Precision.FP16.value]))]
    for key in (_INT4, _OVERFLOW):
        if options[key] != OPTIONS[key].default:
            specs.append(CompileSpec(key, options[key].encode()))
    return specs


def settings_of(compile_specs: Sequence[CompileSpec]) -> Settings:
    """Returns the settings of compile specs, defaults if they are absent.

    Raises:
        DelegatecError: DC402 for every unknown setting and every invalid value.
    """
    found: dict[str, Any] = {}
    problems = []
    for spec in compile_specs:
        field, values = _FIELDS.get(spec.key, ("", {}))
        if not field:
            expected = ", ".join(_FIELDS)
            problems.append(
                Diagnostic("DC402", f"unknown compile spec of MPSBackend: {spec.key!r}", expected=expected)
            )
        elif bytes(spec.value) not in values:
            message = f"invalid value of compile spec {spec.key!r} of MPSBackend: {bytes(spec.value)!r}"
            problems.append(Diagnostic("DC402", message, expected=" or ".join(map(repr, values))))
        else:
            found[field] = values[bytes(spec.value)]
    if problems:
        raise DelegatecError(problems)
    return replace(Settings(), **found)
