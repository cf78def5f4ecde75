# SPDX-License-Identifier: Apache-2.0
"""Settings of the XNNPACK backend. The runtime ignores them: it reads everything from the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.backends.common.settings import OVERFLOW, PRECISION, Overflow, Precision, SettingsCodec


@dataclass(frozen=True)
class Settings:
    """A user's settings.

    Attributes:
        precision: the dtype in which float32 values are computed.
        overflow: the treatment of constants out of float16's range, with `fp16`.
    """

    precision: Precision = Precision.FP32
    overflow: Overflow = Overflow.ERROR


CODEC: Final = SettingsCodec("XnnpackBackend", Settings(), {"precision": PRECISION, "overflow": OVERFLOW})
