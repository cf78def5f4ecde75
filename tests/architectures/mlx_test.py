# SPDX-License-Identifier: Apache-2.0
"""Some architectures for MLX, in its reference executor, against eager mode; `mlx_all_test` has all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architectures.cases import CASES
from tests.architectures.check import check_column
from tests.architectures.page import parse

PAGE = parse((Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["ViT", "Swin", "MobileNetV2", "YOLO", "BERT", "GRU"])
def test_it_agrees_with_eager_mode(name: str) -> None:
    (case,) = [case for case in CASES if case.name == name]
    found = check_column("MLX", case, PAGE[name])
    assert (found.delegates, found.left) == (1, 0)
