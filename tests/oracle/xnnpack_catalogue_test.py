# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in XNNPACK in the stock runtime."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import pytest
import torch

from delegatec.backends.common.testing import Compiled
from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.program import emit, write_program
from tests.operators.backend_check import BackendCheck, Setting
from tests.oracle.oracle import mapped


def _in_runtime(compiled: Compiled, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    file = io.BytesIO()
    write_program(emit({"forward": compiled.program}), file)
    return mapped(file.getvalue()).run(inputs)


_CHECK: Final = BackendCheck("xnnpack", TABLE, REWRITES, (Setting(dtypes=(torch.float32,)),), run=_in_runtime)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    _CHECK.check(name)
