# SPDX-License-Identifier: Apache-2.0
"""The stock runtime with its VGF delegate, on Mesa's driver for CPUs below Arm's emulation layer."""

from __future__ import annotations

import os
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


def _libraries() -> str:
    """Returns the directory of the interpreter's own library, if it has one."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = {str(Path(line.split()[-1]).parent) for line in maps if "/libpython3" in line}
    return ":".join(sorted(found))


@cache
def _child() -> Child:
    environment = _device().environment() | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
    }
    script = Path(__file__).with_name("device_server.py")
    interpreter = [os.path.realpath(sys.executable), "-s", "-P", "-B"]
    return Child([*_device().loader(_libraries()), *interpreter, script], environment)


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
