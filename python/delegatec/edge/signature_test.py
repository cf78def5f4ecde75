# SPDX-License-Identifier: Apache-2.0
"""Which calls decompose alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge.signature import call_signature
from delegatec.edge.testing import edge

aten = torch.ops.aten


def _inputs(*tensors: torch.Tensor, **options: Any) -> list[Any]:
    return edge(lambda *x: [y + 1 for y in x], *tensors, **options).placeholders()


A, B, ROW, HALF = _inputs(torch.ones(2, 3), torch.zeros(2, 3), torch.ones(3), torch.ones(2, 3).half())


def _of(*args: Any, **kwargs: Any) -> Any:
    return call_signature(aten.add.Tensor, args, kwargs)


def test_tensors_count_by_shape_and_dtype() -> None:
    assert _of(A, B) == _of(B, A) == _of(A, A)
    assert _of(A, B) != _of(A, ROW) != _of(ROW, A)
    assert _of(A, B) != _of(A, HALF)


def test_target_and_keywords_count() -> None:
    assert _of(A, B) != call_signature(aten.sub.Tensor, (A, B), {})
    assert _of(A, B, alpha=1) == _of(B, A, alpha=1) != _of(A, B) != _of(A, B, alpha=2)


CONSTANTS = [1, 1.0, True, 0, 0.0, -0.0, float("nan"), "1", None, [1], (1, 2), torch.float32]


@pytest.mark.parametrize("value", CONSTANTS)
def test_constants_count_by_type_and_value(value: Any) -> None:
    assert _of(A, value) == _of(A, value)
    assert sum(_of(A, value) == _of(A, other) for other in [*CONSTANTS, 2, torch.float64]) == 1


def test_nodes_in_lists() -> None:
    assert _of([A, B], 0) == _of([B, A], 0) != _of([A, ROW], 0)


def test_symbols_count_by_their_expression() -> None:
    rows = Dim("rows", min=2, max=8)
    x, y, z = _inputs(
        *(torch.ones(4, 3), torch.ones(4, 3), torch.ones(5, 3)),
        dynamic_shapes=({0: rows}, {0: rows}, {0: Dim("other", min=2, max=8)}),
    )
    assert _of(x) == _of(y) != _of(z)
