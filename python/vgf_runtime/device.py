# SPDX-License-Identifier: Apache-2.0
"""A Vulkan device on this host: Mesa's driver for CPUs below Arm's layers, with extensions for graphs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_LAYERS: Final = "VK_LAYER_ML_Graph_Emulation:VK_LAYER_ML_Tensor_Emulation"


@dataclass(frozen=True)
class Device:
    """The driver and the layers.

    Attributes:
        mesa: directory of the driver and its libraries, with a libc that is newer than the host's may be.
        layers: directory `deploy` of Arm's emulation layer.
    """

    mesa: Path
    layers: Path

    @property
    def missing(self) -> str:
        """Why there is no device; empty if there is one."""
        reason = self.mesa / "missing.txt"
        return reason.read_text(encoding="utf-8") if reason.exists() else ""

    def environment(self) -> dict[str, str]:
        """Returns the environment of a process that uses the device."""
        return {
            "HOME": tempfile.gettempdir(),
            "LP_NUM_THREADS": "2",
            "MESA_SHADER_CACHE_DISABLE": "true",
            "VK_DRIVER_FILES": str(self.mesa / "driver.json"),
            "VK_INSTANCE_LAYERS": _LAYERS,
            "VK_LAYER_PATH": str(self.layers / "share/vulkan/explicit_layer.d"),
        }

    def loader(self, *libraries: str | Path) -> list[str]:
        """Returns the start of a command whose process has the driver's libc.

        Args:
            libraries: further directories of libraries.
        """
        paths = (self.mesa, self.layers / "lib", *libraries)
        return [str(self.mesa / "ld-linux-x86-64.so.2"), "--library-path", ":".join(map(str, paths))]


def installed() -> Device:
    """Returns the device whose parts are on the path.

    Raises:
        ModuleNotFoundError: one of them is not.
    """
    import delegatec_mesa_root

    return Device(Path(delegatec_mesa_root.ROOT).absolute(), wheel_directory("emulation_layer") / "deploy")


def wheel_directory(package: str) -> Path:
    """Returns the directory of a package on the path, which is not imported: its modules may need others.

    Raises:
        ModuleNotFoundError: it is not on the path.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    return Path(found.submodule_search_locations[0]).absolute()
