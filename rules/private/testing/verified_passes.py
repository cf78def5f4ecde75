# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that verifies the edge program after every pass, in all tests that load the compiler."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

_PASSES = "delegatec.edge.passes.pass_manager"


@pytest.fixture(autouse=True)
def verified_passes() -> Iterator[None]:
    """Runs the verifier after every pass within the test."""
    passes = sys.modules.get(_PASSES)
    with passes.observed_passes(passes.verify_after) if passes is not None else nullcontext():
        yield
