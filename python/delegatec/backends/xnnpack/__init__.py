# SPDX-License-Identifier: Apache-2.0
"""The XNNPACK delegate: kernels for CPUs, run by the XNNPACK runtime of ExecuTorch."""

from typing import Final

from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.delegation import Backend

BACKEND: Final[Backend] = XNNPACK
