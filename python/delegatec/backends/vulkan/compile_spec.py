# SPDX-License-Identifier: Apache-2.0
"""Settings of the Vulkan backend. The runtime ignores them: it reads everything from the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from delegatec.backends.vulkan.memory.representation import Limits


class Storage(Enum):
    """The storage of tensors where the choice is free."""

    TEXTURE = "texture"
    BUFFER = "buffer"


class Textures(Enum):
    """The largest textures of the devices that run the program."""

    MOBILE = "mobile"
    DESKTOP = "desktop"


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


CODEC: Final = SettingsCodec(
    "VulkanBackend",
    Settings(),
    {
        "precision": PRECISION,
        "storage": Setting(
            "texture stores tensors in 3-d textures where that costs no copy, buffer in buffers"
        ),
        "textures": Setting(
            "mobile limits textures to 16384 x 16384 x 2048 texels, desktop to 2048 in each dimension; "
            "larger tensors are buffers"
        ),
        "overflow": OVERFLOW,
    },
)
