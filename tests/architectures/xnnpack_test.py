# SPDX-License-Identifier: Apache-2.0
"""Some architectures for XNNPACK in the stock runtime, against eager mode; `xnnpack_all_test` has all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.cases import CASES
from tests.architectures.measure import measure_xnnpack
from tests.architectures.page import parse, xnnpack_counts

PAGE = parse((Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["ViT", "Swin", "MobileNetV2", "YOLO", "GRU", "Fourier neural operator"])
def test_it_is_one_delegate_that_agrees_with_eager_mode(name: str) -> None:
    """Found: errors of 4e-7."""
    (case,) = [case for case in CASES if case.name == name]
    found = measure_xnnpack(case)
    assert found.error.relative <= case.tolerance
    assert (found.delegates, found.left) == (1, 0)
    assert PAGE[name]["XNNPACK"] == xnnpack_counts(found)["XNNPACK"]
