# SPDX-License-Identifier: Apache-2.0
"""The stock runtime with its VGF delegate, on Mesa's driver for CPUs below Arm's emulation layer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from tests.arm.child import Child, packed_in_order, unpacked_in_order
from vgf_runtime.device import Device, installed


class DeviceError(Exception):
    """The runtime rejects a program, or fails to run it."""


@cache
def _device() -> Device:
    return installed()


def missing() -> str:
    """Returns why there is no device; empty if there is one."""
    return _device().missing


def _interpreter() -> tuple[Path, str]:
    """Returns the executable of this interpreter, and the directory of its libraries, or ""."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = sorted({Path(fields[5]) for line in lines if len(fields := line.split(maxsplit=5)) > 5})
    program = Path(sys.executable).resolve()
    with program.open("rb") as file:
        is_script = file.read(2) == b"#!"
    if not is_script:
        libraries = {str(path.parent) for path in mapped if path.name.startswith("libpython3")}
        return program, ":".join(sorted(libraries))
    # Debian's, next to its libc: a script starts it by its loader.
    (program,) = (path for path in mapped if re.fullmatch(r"python3(\.\d+)?", path.name))
    (loader,) = (path for path in mapped if path.name.startswith("ld-linux"))
    return program, str(loader.parent)


@cache
def _child() -> Child:
    environment = _device().environment() | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
    }
    script = Path(__file__).with_name("device_server.py")
    program, libraries = _interpreter()
    return Child([*_device().loader(libraries), program, "-s", "-P", "-B", script], environment)


def run(pte: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs of a program; inputs and outputs may be channels-last.

    Args:
        pte: the file.
        inputs: of its method `forward`.

    Raises:
        DeviceError: the runtime rejects it, or fails.
    """
    error, outputs = _child().ask((pte, [packed_in_order(each) for each in inputs]))
    if error:
        raise DeviceError(f"{error}\n{_child().log()}")
    return [unpacked_in_order(*each) for each in outputs]
