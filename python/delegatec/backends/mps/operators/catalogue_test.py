# SPDX-License-Identifier: Apache-2.0
"""The operators of the catalogue, `tests/operators`, in the reference executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from unittest.mock import patch

import pytest
import torch

from delegatec.backends.common.reference.unspecified import depends_on
from delegatec.backends.mps.backend import MpsBackend
from delegatec.backends.mps.blob import Blob, read_blob
from delegatec.backends.mps.operators.rewrites import REWRITES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.testing.grid import UNMASKED
from delegatec.edge.legalize.rules import topk
from tests.operators.backend_check import HALF, BackendCheck, Setting

_DTYPES: Final = (torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.bool)

_CHECK: Final = BackendCheck(
    "mps",
    TABLE,
    REWRITES,
    (
        Setting(dtypes=_DTYPES),
        Setting({"precision": "fp16"}, (torch.float32,), HALF, is_half=True),
    ),
)


# MPSGraph's result for NaN is unspecified; the rewrites that use the row check for NaN separately.
_UNSPECIFIED: Final = {"fmin.default": ["nan"]}


class _SpecifiedExecutor(MpsReferenceExecutor):
    """Checks that results do not depend on unspecified behavior of MPSGraph.

    Args:
        blob: the blob.
        allowed: behaviors that they may depend on.
    """

    def __init__(self, blob: Blob, allowed: Sequence[str]) -> None:
        super().__init__(blob)
        self._graph, self._allowed = blob, allowed

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        found = depends_on(lambda choices: MpsReferenceExecutor(self._graph, choices)(inputs), UNMASKED)
        assert {*found} <= {*self._allowed}, f"the result depends on {', '.join(found)}"
        return super().__call__(inputs)


@pytest.mark.parametrize("name", _CHECK.names())
def test_results_are_those_of_eager_mode(name: str) -> None:
    def reference(_: MpsBackend, blob: memoryview, __: object) -> MpsReferenceExecutor:
        return _SpecifiedExecutor(read_blob(blob), _UNSPECIFIED.get(name, ()))

    with patch.object(MpsBackend, "reference", reference):
        _CHECK.check(name)


def test_topk_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", 0)
    _CHECK.check("topk.default")
