# SPDX-License-Identifier: Apache-2.0
"""Settings of the XNNPACK backend. The runtime ignores them: it reads everything from the graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from delegatec.backends.common.settings import (
    OVERFLOW,
    PRECISION,
    Overflow,
    Precision,
    Setting,
    SettingsCodec,
)


class Recurrent(Enum):
    """The form of recurrent layers of a static length."""

    LOOP = "loop"
    UNROLLED = "unrolled"


RECURRENT: Final = Setting(
    "loop calls a delegate for each time step of a recurrent layer, unless copies of its weights for all "
    "steps are small; unrolled is one delegate, with copies unless the runtime's weight cache is on"
)


@dataclass(frozen=True)
class Settings:
    """A user's settings.

    Attributes:
        precision: the dtype in which float32 values are computed.
        overflow: the treatment of constants out of float16's range, with `fp16`.
        recurrent: the form of recurrent layers of a static length.
    """

    precision: Precision = Precision.FP32
    overflow: Overflow = Overflow.ERROR
    recurrent: Recurrent = Recurrent.LOOP


CODEC: Final = SettingsCodec(
    "XnnpackBackend", Settings(), {"precision": PRECISION, "overflow": OVERFLOW, "recurrent": RECURRENT}
)
