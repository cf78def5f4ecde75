# SPDX-License-Identifier: Apache-2.0
"""Vela, Arm's compiler for Ethos-U, as a program."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from delegatec.backends.arm.ethos_u.container import Compiled, Port
from delegatec.backends.arm.ethos_u.estimates import read_estimates
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.backends.common.tools import Tool
from delegatec.delegation import Estimates, Part
from delegatec.delegation.protocol.parts import chunks

VELA: Final = Tool("Vela", "ethosu", "ethos-u-vela==5.2.0")
_MODULE: Final = "ethosu.vela"
_NAME: Final = "delegate"
"""Of the network: the base name of its files."""


def compile_graph(blob: Iterable[Part], settings: EthosUSettings) -> tuple[Compiled, Estimates]:
    """Compiles a TOSA graph to a command stream.

    Args:
        blob: the parts of the graph.
        settings: the user's settings.

    Returns:
        The command stream, and Vela's estimates of its speed and memory.

    Raises:
        DelegatecError: DC430 if Vela is not installed; DC431 if it fails.
    """
    VELA.directory()
    with tempfile.TemporaryDirectory(prefix="vela") as directory:
        folder = Path(directory)
        with (folder / f"{_NAME}.tosa").open("wb") as file:
            for part in blob:
                for chunk in chunks(part):
                    file.write(chunk)
        finished = VELA.run([*VELA.module(_MODULE), f"{_NAME}.tosa", *_arguments(settings, folder)], folder)
        stream = folder / "output" / f"{_NAME}_vela.npz"
        if finished.status != 0 or not stream.exists():
            raise VELA.failure(finished.ending, _reason(finished.text))
        with np.load(stream, allow_pickle=False) as arrays:
            compiled = _compiled(arrays)
        return compiled, read_estimates(folder / "output", _NAME, finished.text)


def _reason(messages: str) -> str:
    """Returns the error at the end of a traceback, or all messages."""
    lines = messages.splitlines()
    frames = [index for index, line in enumerate(lines) if line.startswith("  ")]
    return "\n".join(lines[frames[-1] + 1 :]) if "Traceback" in messages and frames else messages


def _arguments(settings: EthosUSettings, folder: Path) -> Sequence[str]:
    configuration = "Arm/vela.ini"
    if settings.configuration.text:
        # A relative path of two parts would be a file of Vela's.
        path = folder / "board.ini"
        path.write_text(settings.configuration.text)
        configuration = str(path)
    return [
        f"--accelerator-config={settings.accelerator.value}",
        f"--config={configuration}",
        f"--system-config={settings.system_name}",
        f"--memory-mode={settings.memory_mode_name}",
        "--output-format=raw",
        "--output-dir=output",
        "--verbose-performance",
        *settings.flags.words,
    ]


def _compiled(arrays: Any) -> Compiled:
    return Compiled(
        memoryview(arrays["cmd_data"].tobytes()),
        memoryview(arrays["weight_data"].tobytes()),
        int(arrays["scratch_shape"][0]),
        _ports(arrays, "input"),
        _ports(arrays, "output"),
    )


def _ports(arrays: Any, prefix: str) -> tuple[Port, ...]:
    columns = [arrays[f"{prefix}_{each}"].tolist() for each in ("shape", "elem_size", "offset", "region")]
    return tuple(Port(tuple(shape), *rest) for shape, *rest in zip(*columns, strict=True))
