# SPDX-License-Identifier: Apache-2.0
"""Settings of the MLX backend. The runtime ignores them: it reads everything from the graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from delegatec.backends.common.settings import (
    OVERFLOW,
    Overflow,
    Precision,
    Setting,
    SettingsCodec,
)


class Runtime(Enum):
    """The oldest runtime that runs the program, by the version of ExecuTorch."""

    V1_4_1 = "1.4.1"
    V1_5_1 = "1.5.1"


class KvCache(Enum):
    """What keeps the keys and values of attention between calls."""

    PROGRAM = "program"
    RUNTIME = "runtime"


@dataclass(frozen=True)
class Settings:
    """A user's settings.

    Attributes:
        precision: the dtype in which float32 values are computed.
        runtime: the oldest runtime that runs the program.
        overflow: the treatment of constants out of float16's range, with `fp16`.
        kv_cache: what keeps the keys and values of attention between calls.
    """

    precision: Precision = Precision.FP32
    runtime: Runtime = Runtime.V1_5_1
    overflow: Overflow = Overflow.ERROR
    kv_cache: KvCache = KvCache.PROGRAM


_PRECISION: Final = Setting(
    "fp16 and bf16 store float32 weights as float16 or bfloat16, and compute in it; inputs, outputs and what "
    "the model's code converts to float32 stay float32"
)

CODEC: Final = SettingsCodec(
    "MLXBackend",
    Settings(),
    {
        "precision": _PRECISION,
        "runtime": Setting("the oldest runtime that runs the program: operations that it lacks are not used"),
        "overflow": OVERFLOW,
        "kv_cache": Setting(
            "runtime stores keys and values of attention in a cache that the app installs in a runtime from "
            "1.5.1 on; program keeps them in buffers of the delegate",
            needs=("runtime", Runtime.V1_5_1.value),
        ),
    },
)
