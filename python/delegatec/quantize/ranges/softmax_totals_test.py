# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.edge.testing import Function
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized


def _attention(x: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(8 * x, torch.eye(64), torch.eye(64), mask)


_PROBABILITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: F.softmax(x * 1.0, -1),
    "softmax of columns": lambda x: F.softmax(x.mT * 1.0, -2).mT,
    "attention": _attention,
    "masked attention": lambda x: _attention(x, torch.ones(8, 64, dtype=torch.bool).tril(40)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", [1.0, 16.0, 256.0])
@pytest.mark.parametrize("name", _PROBABILITIES)
def test_probabilities_sum_to_one(name: str, scale: float) -> None:
    """Scores that samples tell apart are equal in int8 if their range is wide."""
    generator = torch.Generator().manual_seed(0)
    first, *others, last = (torch.randn(16, 8, 64, generator=generator) * scale for _ in range(5))
    samples = [((x,), {}) for x in others]
    model = quantized(Function(_PROBABILITIES[name]), (first,), Settings(), samples)
    found = model.methods["forward"].module(check_guards=False)(last).sum(-1)
    assert found.max() < 1.05


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_a_scalar_is_its_own_softmax(name: str, dim: int) -> None:
    """It has no dimension, but torch takes 0 and -1 for one of size 1."""
    softmax = getattr(F, name)
    x = torch.tensor([0.5, 2.0])
    model = quantized(Function(lambda x: softmax(x.sum() * 1.0, dim)), (x,), Settings(), [((x,), {})])
    found = model.methods["forward"].module(check_guards=False)(x)
    torch.testing.assert_close(found, softmax(x.sum(), dim), rtol=0, atol=0.02)


def test_operands_of_scores_are_quantized_too() -> None:
    """Scores are sums of larger terms: they become equal by the rounding of these."""
    generator = torch.Generator().manual_seed(0)
    largest = torch.rand(32, 1, generator=generator) * 400
    scores = torch.cat([largest, largest - 8, largest - 600], 1)
    terms = torch.rand(32, 3, generator=generator) * 2000 - 1000
    x = torch.stack([terms, scores - terms], -1)
    model = quantized(Function(_probabilities_of_sums), (x,), Settings())
    found = model.methods["forward"].module(check_guards=False)(x).sum(-1)
    assert found.max() < 1.2


def _probabilities_of_sums(x: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(torch.ones(1, 2), x, torch.eye(3), scale=1.0)
