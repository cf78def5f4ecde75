# SPDX-License-Identifier: Apache-2.0
"""The MPS delegate: graphs for Apple GPUs, run by the MPS runtime of ExecuTorch up to 1.4."""

from typing import Final

from delegatec.backends.mps.backend import MPS
from delegatec.delegation import Backend

BACKEND: Final[Backend] = MPS
