# SPDX-License-Identifier: Apache-2.0
"""The cases of the XNNPACK backend's operators in the stock runtime, in both precisions."""

from __future__ import annotations

import pytest

from delegatec.backends.xnnpack.testing.operators.all import ALL
from tests.oracle.xnnpack import run_in_runtime


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ALL)
def test_the_runtime_agrees_with_eager_mode(name: str) -> None:
    case = ALL[name]
    report = run_in_runtime(case.module(), [case.args, *case.more], case.dynamic_shapes(), rtol=case.rtol)
    assert (len(report.delegates), report.rejections) == (1, [])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name, case in ALL.items() if case.half is not None])
def test_the_runtime_agrees_in_float16(name: str) -> None:
    """Eager mode computes on rounded inputs in float32."""
    case = ALL[name]
    tolerance = case.half or 0.0
    calls = [
        tuple(each.half().float() if each.is_floating_point() else each for each in call)
        for call in (case.args, *case.more)
    ]
    run_in_runtime(
        case.module(), calls, case.dynamic_shapes(), {"precision": "fp16"}, rtol=tolerance, atol=tolerance
    )
