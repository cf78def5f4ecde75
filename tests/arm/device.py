# SPDX-License-Identifier: Apache-2.0
"""The stock runtime with its VGF delegate, on Mesa's driver for CPUs below Arm's emulation layer."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import torch

from tests.arm.child import Child, packed_in_order, runfile, unpacked_in_order

_LAYERS: Final = "delegatec_pip_emulation_layer/site-packages"


class DeviceError(Exception):
    """The runtime rejects a program, or fails to run it."""


def _mesa() -> Path:
    return runfile("delegatec_mesa/root", "MESA_ROOT")


def missing() -> str:
    """Returns why there is no device; empty if there is one."""
    reason = _mesa() / "missing.txt"
    return reason.read_text() if reason.exists() else ""


def _libraries() -> str:
    """Returns the directory of the interpreter's own library, if it has one."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = {str(Path(line.split()[-1]).parent) for line in maps if "/libpython3" in line}
    return ":".join(sorted(found))


@cache
def _device() -> Child:
    mesa, layers = _mesa(), runfile(_LAYERS, "EMULATION_LAYER") / "emulation_layer/deploy"
    environment = {
        "HOME": tempfile.gettempdir(),
        "LP_NUM_THREADS": "2",
        "MESA_SHADER_CACHE_DISABLE": "true",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
        "VK_DRIVER_FILES": str(mesa / "driver.json"),
        "VK_INSTANCE_LAYERS": "VK_LAYER_ML_Graph_Emulation:VK_LAYER_ML_Tensor_Emulation",
        "VK_LAYER_PATH": str(layers / "share/vulkan/explicit_layer.d"),
    }
    # The driver needs a newer libc than the host may have, and a process has only one.
    loader = [mesa / "ld-linux-x86-64.so.2", "--library-path", f"{mesa}:{layers / 'lib'}:{_libraries()}"]
    script = Path(__file__).with_name("device_server.py")
    return Child([*loader, os.path.realpath(sys.executable), "-s", "-P", "-B", script], environment)


def run(pte: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs of a program; inputs and outputs may be channels-last.

    Args:
        pte: the file.
        inputs: of its method `forward`.

    Raises:
        DeviceError: the runtime rejects it, or fails.
    """
    error, outputs = _device().ask((pte, [packed_in_order(each) for each in inputs]))
    if error:
        raise DeviceError(f"{error}\n{_device().log()}")
    return [unpacked_in_order(*each) for each in outputs]
