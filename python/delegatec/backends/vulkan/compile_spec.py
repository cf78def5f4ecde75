# SPDX-License-Identifier: Apache-2.0
"""Settings of the Vulkan backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from delegatec.backends.vulkan.memory.representation import Limits
from delegatec.delegation.protocol.backend import OptionSpec
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic


class Precision(Enum):
    """The dtype in which a delegate computes float32 values."""

    FP32 = "fp32"
    FP16 = "fp16"


class Storage(Enum):
    """The storage of tensors where the choice is free."""

    TEXTURE = "texture"
    BUFFER = "buffer"


class Textures(Enum):
    """The largest textures of the devices that run the program."""

    MOBILE = "mobile"
    DESKTOP = "desktop"


class Overflow(Enum):
    """The treatment of numbers beyond float16."""

    ERROR = "error"
    SATURATE = "saturate"


LIMITS: Final[Mapping[Textures, Limits]] = {
    Textures.MOBILE: Limits(16384, 16384, 2048),
    Textures.DESKTOP: Limits(2048, 2048, 2048),
}


@dataclass(frozen=True)
class Settings:
    """A user's settings.

    Attributes:
        precision: the dtype in which float32 values are computed.
        storage: of tensors where the choice is free.
        textures: which devices limit the extents of textures.
        overflow: the treatment of constants beyond float16, with `fp16`.
    """

    precision: Precision = Precision.FP32
    storage: Storage = Storage.TEXTURE
    textures: Textures = Textures.MOBILE
    overflow: Overflow = Overflow.ERROR

    @property
    def limits(self) -> Limits:
        """The largest texture."""
        return LIMITS[self.textures]


OPTIONS: Final[Mapping[str, OptionSpec]] = {
    "precision": OptionSpec(
        values=tuple(p.value for p in Precision),
        default=Precision.FP32.value,
        doc="fp16 stores float32 weights as float16 and computes in it; inputs and outputs stay float32",
    ),
    "storage": OptionSpec(
        values=tuple(s.value for s in Storage),
        default=Storage.TEXTURE.value,
        doc="texture stores tensors in 3-d textures where that costs no copy, buffer in buffers",
    ),
    "textures": OptionSpec(
        values=tuple(t.value for t in Textures),
        default=Textures.MOBILE.value,
        doc="mobile limits textures to 16384 x 16384 x 2048 texels, desktop to 2048 in each dimension; "
        "larger tensors are buffers",
    ),
    "fp16_overflow": OptionSpec(
        values=tuple(o.value for o in Overflow),
        default=Overflow.ERROR.value,
        doc="with fp16, error rejects weights and constants beyond +-65504, saturate clamps them to that "
        "range; the lowest and highest float32 are always clamped",
    ),
}

# The runtime ignores these keys: it reads everything from the graph.
_FIELDS: Final[Mapping[str, tuple[str, type[Enum]]]] = {
    "precision": ("precision", Precision),
    "storage": ("storage", Storage),
    "textures": ("textures", Textures),
    "fp16_overflow": ("overflow", Overflow),
}


def specs_for(options: Mapping[str, str]) -> list[CompileSpec]:
    """Returns the compile specs for resolved options; defaults are not stored."""
    return [
        CompileSpec(key, options[key].encode()) for key in _FIELDS if options[key] != OPTIONS[key].default
    ]


def settings_of(compile_specs: Sequence[CompileSpec]) -> Settings:
    """Returns the settings of compile specs, defaults if they are absent.

    Raises:
        DelegatecError: DC402 for every unknown setting and every invalid value.
    """
    found: dict[str, Any] = {}
    problems = []
    for spec in compile_specs:
        value = bytes(spec.value).decode("utf-8", "backslashreplace")
        if spec.key not in _FIELDS:
            expected = ", ".join(_FIELDS)
            message = f"unknown compile spec of VulkanBackend: {spec.key!r}"
            problems.append(Diagnostic("DC402", message, expected=expected))
        elif value not in OPTIONS[spec.key].values:
            message = f"invalid value of compile spec {spec.key!r} of VulkanBackend: {value!r}"
            problems.append(Diagnostic("DC402", message, expected=" or ".join(OPTIONS[spec.key].values)))
        else:
            field, kind = _FIELDS[spec.key]
            found[field] = kind(value)
    if problems:
        raise DelegatecError(problems)
    return replace(Settings(), **found)
