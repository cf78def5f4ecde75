# SPDX-License-Identifier: Apache-2.0
"""Which architectures are tested by default, as all of them take ten minutes."""

from __future__ import annotations

from typing import Final

from tests.architectures.cases import CASES
from tests.architectures.plain import PLAIN
from tests.architectures.quantized import QUANTIZED

_NAMES: Final = {"YOLO", "GRU", "DiT", "Fourier neural operator"}
_SUPPORTED: Final = [case for case in CASES if not case.refusal]
_NETWORKS: Final = [case for case in _SUPPORTED if case not in PLAIN and case not in QUANTIZED]

SAMPLED: Final = (*_NETWORKS[::2], *QUANTIZED, *(case for case in PLAIN if case.name in _NAMES))
REST: Final = tuple(case for case in _SUPPORTED if case not in SAMPLED)
