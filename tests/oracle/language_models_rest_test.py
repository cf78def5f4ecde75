# SPDX-License-Identifier: Apache-2.0
"""The families of language models, and combinations, that `language_models_test.py` leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delegatec.language.testing import FAMILIES
from tests.oracle.language_families import (
    EXPERTS,
    INT4,
    INT8,
    check_adapters_of_quantized_weights,
    check_greedy_tokens,
    check_quantized_experts,
    sampled,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("name", sampled(FAMILIES, rest=True))
def test_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_greedy_tokens(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, INT4 if settings is INT8 else INT8) for name, settings in EXPERTS],
)
def test_quantized_experts(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    check_quantized_experts(name, settings, tmp_path)


@pytest.mark.parametrize(("precision", "settings"), [("fp32", INT4), ("fp16", INT8)])
def test_adapters_of_quantized_weights(precision: str, settings: dict[str, Any], tmp_path: Path) -> None:
    check_adapters_of_quantized_weights(precision, settings, tmp_path)
