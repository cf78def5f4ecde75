# SPDX-License-Identifier: Apache-2.0
"""Functions with a domain, at its bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

_UNIT: Final = torch.linspace(-1, 1, 64)
_FUNCTIONS: Final[dict[str, tuple[Callable[..., Any], Tensor]]] = {
    "acos": (torch.acos, _UNIT),
    "acos from -0.3": (torch.acos, _UNIT.clamp_min(-0.3)),
    "asin": (torch.asin, _UNIT),
    "asin to 0.9": (torch.asin, _UNIT.clamp_max(0.9)),
    "atanh": (torch.atanh, _UNIT * 0.999),
    "erfinv": (torch.erfinv, _UNIT * 0.999),
    "log1p": (torch.log1p, 20 * _UNIT + 19.01),
    "log1p of large numbers": (torch.log1p, 60 * torch.linspace(0, 2, 64).square() - 0.99),
    "acosh": (torch.acosh, 5 * _UNIT + 6),
    "acosh of large numbers": (torch.acosh, 50 * _UNIT + 51),
    "logit": (torch.logit, _UNIT * 0.3 + 0.5),
    "logit up to 1": (torch.logit, _UNIT * 0.2 + 0.7985),
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x, x.flip(0), reduction="none"),
        _UNIT.sigmoid(),
    ),
    "binary_cross_entropy up to 1": (lambda x: F.binary_cross_entropy(x, 1 - x), _UNIT * 0.499 + 0.5),
}


class Calls(nn.Module):
    def __init__(self, is_shared: bool) -> None:
        super().__init__()
        self.is_shared = is_shared

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        found = [call(x) for (call, _), x in zip(_FUNCTIONS.values(), inputs, strict=True)]
        # other values have the range of the operand
        return (*found, *(torch.cat([x, 3 * x]) if self.is_shared else x + 1 for x in inputs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("settings", [{}, {"ranges": "symmetric"}, {"activation": "int16"}], ids=str)
@pytest.mark.parametrize("is_shared", [False, True], ids=["", "shared"])
def test_no_quantized_value_is_outside_of_a_domain(is_shared: bool, settings: Any) -> None:
    module, inputs = Calls(is_shared), tuple(x for _, x in _FUNCTIONS.values())
    program = quantized(module, inputs, Settings(**settings)).methods["forward"]
    with torch.no_grad():
        exact, found = module(*inputs), program.module(check_guards=False)(*inputs)
    for name, value, other in zip(_FUNCTIONS, exact, found, strict=False):
        assert bool(other.isfinite().all()), name
        assert signal_to_noise(value, other) > 13, (name, signal_to_noise(value, other))
