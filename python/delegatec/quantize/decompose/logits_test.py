# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import Function
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise, text


def _bounded(x: Tensor, eps: float = 1e-5) -> Tensor:
    """As detectors of the DETR family compute reference points."""
    return _terms(x.clamp(min=0, max=1), eps)


def _terms(x: Tensor, eps: float) -> Tensor:
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


_LOGITS: dict[str, Callable[[Tensor], Tensor]] = {
    "operator": lambda x: torch.logit(x),
    "operator with bounds": lambda x: torch.logit(x, 1e-5),
    "bounded": _bounded,
    "bounded terms": lambda x: _terms(x, 1e-3),
    "plain": lambda x: torch.log(x / (1 - x)),
    "by a reciprocal": lambda x: torch.log(x * (1 - x).reciprocal()),
}
X = 2 * torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", _LOGITS)
def test_logits_have_one_scale(name: str) -> None:
    module = Function(lambda x: _LOGITS[name](x.sigmoid()))
    assert "logit" in text(module, (X,))
    found = quantized(module, (X,), Settings()).methods["forward"].module(check_guards=False)(X)
    assert signal_to_noise(module(X), found) > 30


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: torch.log(x / (2 - x)), id="not of 1"),
        pytest.param(lambda x: torch.log(x / (1 - x * 0.5)), id="of another value"),
        pytest.param(lambda x: torch.log(x.clamp(min=1e-3) / (1 - x).clamp(min=1e-2)), id="two bounds"),
        pytest.param(lambda x: torch.log2(x / (1 - x)), id="another base"),
        pytest.param(lambda x: _terms(3 * x, 1e-3), id="beyond 1"),
        pytest.param(lambda x: _terms(x, 0.6), id="a bound above one half"),
    ],
)
def test_other_logarithms_stay(function: Callable[[Tensor], Tensor]) -> None:
    assert "logit" not in text(Function(lambda x: function(x.sigmoid())), (X,))
