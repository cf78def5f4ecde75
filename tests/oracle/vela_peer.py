# SPDX-License-Identifier: Apache-2.0
"""The peer's compilation of a TOSA graph for Ethos-U, in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from delegatec.backends.arm.ethos_u.settings import EthosUSettings

_PEER: Final = """
import importlib.util, runpy, sys
# Its file alone: its package needs wheels that the tests do not have.
path = importlib.util.find_spec("executorch").submodule_search_locations[0]
peer = runpy.run_path(path + "/backends/arm/arm_vela.py")
tosa, out, folder, *flags = sys.argv[1:]
blob = peer["vela_compile"](open(tosa, "rb").read(), flags, intermediate_path=folder)
open(out, "wb").write(blob)
"""


def environment() -> dict[str, str]:
    """Returns the environment of a process with the import path of this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))}


def peer_container(graph: bytes, settings: EthosUSettings, folder: Path) -> bytes:
    """Returns the peer's container of a TOSA graph.

    Args:
        graph: the TOSA graph.
        settings: the accelerator, its system and its memory mode.
        folder: an empty directory.
    """
    tosa, theirs = folder / "graph.tosa", folder / "theirs"
    tosa.write_bytes(graph)
    flags = [
        f"--accelerator-config={settings.accelerator.value}",
        "--config=Arm/vela.ini",
        "--output-format=raw",
        f"--system-config={settings.system_name}",
        f"--memory-mode={settings.memory_mode_name}",
    ]
    command = [sys.executable, "-c", _PEER, str(tosa), str(theirs), str(folder), *flags]
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    return theirs.read_bytes()
