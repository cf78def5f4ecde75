# SPDX-License-Identifier: Apache-2.0
"""Norms have the results of eager mode near a mean of zero, and the errors of the runtime far from it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from delegatec.verify.norm_kernels import NORMS, compute_norm

aten = torch.ops.aten
X = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
W, B = X[0, :, 0].clone(), X[1, :, 1].clone()
LONG = X.repeat(1, 1, 60)

CASES: dict[str, tuple[OpOverload, tuple[Any, ...]]] = {
    "layers": (aten.native_layer_norm.default, (X, [4, 5], X[1], X[2], 1e-5)),
    "groups": (aten.native_group_norm.default, (X, W, B, 3, 4, 5, 2, 1e-5)),
    "groups_of_channels": (aten.native_group_norm.default, (X[..., 0].clone(), W, None, 3, 4, 1, 2, 1e-5)),
    "batches": (aten._native_batch_norm_legit.no_stats, (X, W, B, True, 0.1, 1e-5)),
    "batches_of_rows": (
        aten._native_batch_norm_legit.no_stats,
        (X[..., 0].clone(), W, None, True, 0.1, 1e-3),
    ),
}


def _by_name(operator: OpOverload, args: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((each.name for each in operator._schema.arguments), args, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_norms(name: str) -> None:
    operator, args = CASES[name]
    results = compute_norm(_by_name(operator, args))
    assert results is not None
    torch.testing.assert_close(results, operator(*args), atol=2e-6, rtol=2e-6)
    far = (args[0] + 1000, *args[1:])
    results = compute_norm(_by_name(operator, far))
    assert results is not None
    # measured in the runtime: 0.5 to 1.3 for a deviation of 1
    assert not (results[0] - operator(*far)[0]).abs().max() < 0.01


@pytest.mark.parametrize("x", [LONG, X.double(), X[:, :, :0], X.half()])
def test_other_norms_are_those_of_eager_mode(x: torch.Tensor) -> None:
    operator = aten.native_layer_norm.default
    assert compute_norm(_by_name(operator, (x, list(x.shape[2:]), None, None, 1e-5))) is None


def test_operators() -> None:
    assert {operator.overloadpacket for operator in NORMS} == {
        each.overloadpacket for each, _ in CASES.values()
    }
