# SPDX-License-Identifier: Apache-2.0
"""Settings of the Vulkan backend. The runtime ignores them: it reads everything from the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
from delegatec.backends.vulkan.devices.profile import Device, builtin_devices
from delegatec.backends.vulkan.memory.representation import Limits
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.diagnostics import DelegatecError, Diagnostic


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
        device: the device that runs the program.
    """

    precision: Precision = Precision.FP32
    storage: Storage = Storage.TEXTURE
    textures: Textures = Textures.MOBILE
    overflow: Overflow = Overflow.ERROR
    device: Device = field(default_factory=Device)

    @property
    def limits(self) -> Limits:
        """The largest texture: of the device, and of those that `textures` names."""
        of_device = self.device.textures or LIMITS[self.textures]
        return Limits(*map(min, LIMITS[self.textures], of_device))

    @property
    def preferred_storage(self) -> Storage:
        """The storage where the choice is free: that of the device, unless the option asks for buffers."""
        if self.storage is Storage.TEXTURE and self.device.storage:
            return Storage(self.device.storage)
        return self.storage


class VulkanCodec(SettingsCodec[Settings]):
    """Also checks that the device has the precision."""

    def encode(self, options: Mapping[str, str]) -> list[CompileSpec]:
        """See `SettingsCodec.encode`."""
        specs = super().encode(options)
        settings = self.decode(specs)
        if settings.precision is Precision.FP16 and not settings.device.float16:
            message = f"option 'precision' of {self.backend} cannot be 'fp16' for {settings.device.name}"
            help = "the file of the device says that it does not compute in float16"
            raise DelegatecError([Diagnostic("DC402", message, expected="fp32", help=help)])
        return specs


CODEC: Final = VulkanCodec(
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
        "device": Setting(
            "the device: the name of a known one, or a file with its limits and the sizes that it computes "
            "wrongly, which are avoided; by default any device",
            parse=Device.parse,
            is_file=True,
            names=tuple(builtin_devices()),
        ),
    },
)
