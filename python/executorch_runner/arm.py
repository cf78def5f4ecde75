# SPDX-License-Identifier: Apache-2.0
"""A `delegatec.verify.runtime.Runtime` for each Arm CPU that `//runtime/arm` emulates.

The names, in capitals and with underscores, are those of `rules/private/arm_cpus.bzl`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from executorch_runner.runtime import RunnerRuntime

# In the runfiles of a test, the runner is below the same root as this file.
_RUNNER: Final = os.environ.get("EXECUTORCH_ARM_RUNNER") or Path(__file__).parents[2] / "runtime/arm/runner"


def on_cpu(cpu: str) -> RunnerRuntime:
    """Returns the runtime on a CPU, such as "cortex-a76"."""
    return RunnerRuntime(_RUNNER, name=f"executorch runner, {cpu}", flags=[f"--cpu={cpu}"])


A64FX: Final = on_cpu("a64fx")
CORTEX_A53: Final = on_cpu("cortex-a53")
CORTEX_A55: Final = on_cpu("cortex-a55")
CORTEX_A72: Final = on_cpu("cortex-a72")
CORTEX_A76: Final = on_cpu("cortex-a76")
CORTEX_A710: Final = on_cpu("cortex-a710")
MAX: Final = on_cpu("max")
NEOVERSE_N1: Final = on_cpu("neoverse-n1")
NEOVERSE_V1: Final = on_cpu("neoverse-v1")
