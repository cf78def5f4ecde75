# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in XNNPACK in the stock runtime.

Results for NaN and infinities depend on the CPU.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import pytest
import torch

from delegatec.backends.common.testing import Compiled
from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.backends.xnnpack.testing.catalogue import UNSUPPORTED
from delegatec.edge.convert import KERNEL_COMPOSITES
from delegatec.edge.legalize.normal_form import decompose
from delegatec.program import emit, write_program
from tests.operators.backend_check import BackendCheck, Setting
from tests.oracle.oracle import mapped


def _in_runtime(compiled: Compiled, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    # a call that is not delegated may have no kernel
    decompose(compiled.program, preserve=KERNEL_COMPOSITES)
    file = io.BytesIO()
    write_program(emit({"forward": compiled.program}), file)
    return mapped(file.getvalue()).run(inputs)


def _check(*dtypes: torch.dtype) -> BackendCheck:
    setting = Setting(dtypes=dtypes, only_finite=True)
    return BackendCheck("xnnpack", TABLE, REWRITES, (setting,), unsupported=UNSUPPORTED, run=_in_runtime)


_CHECK: Final = _check(torch.float32, torch.bool)
_OF_FLOATS: Final = _check(torch.float32)
# Eager mode returns bools that keep their size as they are; the kernels take none.
_ANTIALIASED: Final = ("_upsample_bicubic2d_aa.vec", "_upsample_bilinear2d_aa.vec")


@pytest.mark.parametrize("name", [name for name in _CHECK.names() if name not in UNSUPPORTED])
def test_results_are_those_of_eager_mode(name: str) -> None:
    (_OF_FLOATS if name in _ANTIALIASED else _CHECK).check(name)
