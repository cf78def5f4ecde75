# SPDX-License-Identifier: Apache-2.0
"""The families of language models that `language_models_test.py` leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from delegatec.language.testing import FAMILIES
from tests.oracle.language_families import check_greedy_tokens, sampled

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("name", sampled(FAMILIES, rest=True))
def test_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    check_greedy_tokens(name, tmp_path)
