# SPDX-License-Identifier: Apache-2.0
"""Compares the operations emitted in these tests with the record, or writes it, with `--record`."""

from __future__ import annotations

from pathlib import Path

from delegatec.backends.common.testing.record_check import RecordCheck
from delegatec.backends.mlx.operators.docs import RECORD
from delegatec.backends.mlx.testing import recorded_lowerings

_CHECK = RecordCheck(
    Path(__file__).parent, RECORD, recorded_lowerings, "//python/delegatec/backends/mlx:record"
)

pytest_collection_finish = _CHECK.collection_finish
pytest_deselected = _CHECK.deselected
lowerings = _CHECK.of_package()
recorded = _CHECK.of_test()
