# SPDX-License-Identifier: Apache-2.0
"""Vela's compiler over small graphs, each in a forked process, since some crash it.

Usage: vela_cases.py CONFIGURATION < lines of "FAMILY FILE". Prints one line per graph: nothing, or an error.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

from ethosu import regor

_SECONDS: Final = 60
_ARCHITECTURES: Final = {
    "u55": ("EthosU55", 128, "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "u65": ("EthosU65", 256, "Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "u85": ("EthosU85", 256, "Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}
_OPTIONS: Final = "\n[compiler]\noutput_format=Raw\ncop_format=COP1\n[scheduler]\noptimize=Performance\n"


def _compile(family: str, blob: bytes, configuration: str) -> str:
    architecture, macs, system, memory_mode = _ARCHITECTURES[family]
    head = f"[architecture]\nmacs={macs}\ncores=1\n[vela]\n"
    head += f"system_config_name={system}\nmemory_mode_name={memory_mode}\n"
    try:
        regor.compile(architecture, blob, "TOSA", head + configuration, options=_OPTIONS, verbose=False)
    except RuntimeError as error:
        return " ".join(str(error).split())
    return ""


def _verdict(family: str, blob: bytes, configuration: str) -> str:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        signal.alarm(_SECONDS)
        os.write(writing, (_compile(family, blob, configuration) or "accepted").encode()[:4096])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(process, 0)
    return "" if text == "accepted" else text or f"status {status}"


if __name__ == "__main__":
    settings = Path(sys.argv[1]).read_text()
    for line in sys.stdin:
        name, file = line.split()
        print(_verdict(name, Path(file).read_bytes(), settings), flush=True)
