# SPDX-License-Identifier: Apache-2.0
"""All architectures, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.architectures.audio import AUDIO
from tests.architectures.case import Case
from tests.architectures.decoders import DECODERS
from tests.architectures.dense import DENSE
from tests.architectures.multimodal import MULTIMODAL
from tests.architectures.plain import PLAIN
from tests.architectures.quantized import QUANTIZED
from tests.architectures.sequence import SEQUENCE
from tests.architectures.text import TEXT
from tests.architectures.vision import VISION

CASES: Final[tuple[Case, ...]] = (
    *VISION,
    *DENSE,
    *TEXT,
    *DECODERS,
    *SEQUENCE,
    *AUDIO,
    *MULTIMODAL,
    *QUANTIZED,
    *PLAIN,
)
