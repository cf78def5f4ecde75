# SPDX-License-Identifier: Apache-2.0
"""The same arithmetic on every CPU: random initial values and folded constants become bytes of the outputs.

Libraries choose instructions by the CPU, and with them the order of sums and the approximation of functions.
The pins hold for CPUs of one architecture; on x86-64 for those with AVX2 (Haswell, Zen, and newer ones).
"""

from __future__ import annotations

import os
from typing import Final

_PINS: Final = {
    # Intel's library of linear algebra, for matrix products and decompositions
    "MKL_CBWR": "COMPATIBLE",
    # numpy's
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
}
# The file names its CPUs one after the other; the flags of the first are in this many bytes.
_FIRST_CPU: Final = 8192


def pin_arithmetic() -> None:
    """Sets environment variables that choose instructions, unless the user did. Call it before imports."""
    # Random numbers with AVX2 equal those of newer CPUs; functions differ.
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2" if _has_avx2() else "default")
    for name, value in _PINS.items():
        os.environ.setdefault(name, value)


def pin_torch() -> None:
    """Disables torch's threads, and oneDNN, whose results depend on instructions and sizes of caches."""
    import torch

    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]


def _has_avx2() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return " avx2 " in file.read(_FIRST_CPU)
    except OSError:
        return False
