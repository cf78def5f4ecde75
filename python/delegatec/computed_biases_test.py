# SPDX-License-Identifier: Apache-2.0
"""Quantized layers with a bias from an input or a call are delegated whole, also by backends of integers."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec import lower
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

_MATRIX = (3, 8)
_IMAGE = (2, 4, 6, 6)


class Layer(nn.Module):
    """Calls a function on an input, a weight and a bias, an input as well."""

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor], Tensor], weight: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(weight, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.function(x, self.weight, bias)


# Function of an input, a weight and a bias; the shapes of the input and of the weight; the outputs.
_LAYERS: dict[str, tuple[Callable[..., Tensor], tuple[int, ...], tuple[int, ...], int]] = {
    "linear": (functional.linear, _MATRIX, (6, 8), 6),
    "computed": (lambda x, w, b: functional.linear(x, w, b * 2 + 1).relu(), _MATRIX, (6, 8), 6),
    "keyword": (lambda x, w, b: torch.ops.aten.linear.default(x, w, bias=b), _MATRIX, (6, 8), 6),
    "addmm": (lambda x, w, b: torch.addmm(b, x, w), _MATRIX, (8, 6), 6),
    "two inputs": (lambda x, w, b: torch.addmm(b, x, x.t() * 2), _MATRIX, (1,), 3),
    "conv1d": (lambda x, w, b: functional.conv1d(x[0], w, b), _IMAGE, (5, 6, 3), 5),
    "conv2d": (functional.conv2d, _IMAGE, (5, 4, 3, 3), 5),
    "relu": (lambda x, w, b: functional.conv2d(x, w, b * 2, groups=2).relu(), _IMAGE, (6, 2, 3, 3), 6),
    "transposed": (functional.conv_transpose2d, _IMAGE, (4, 5, 3, 3), 5),
}


@pytest.mark.parametrize("name", _LAYERS)
def test_layers_are_delegated(name: str) -> None:
    function, shape, weight, outputs = _LAYERS[name]
    module = Layer(function, weight)
    noise = torch.Generator().manual_seed(0)
    samples = [(torch.randn(shape, generator=noise), torch.randn(outputs, generator=noise)) for _ in range(4)]
    methods = quantized(module, samples[0], Settings(), [(sample, {}) for sample in samples[1:]]).methods
    program = methods["forward"].module(check_guards=False)
    assert min(signal_to_noise(module(*sample), program(*sample)) for sample in samples) > 30
    for backend, options in (("xnnpack", {}), ("tosa", {"specification": "TOSA-1.0+INT"})):
        report = lower(copy.deepcopy(methods), backend, options).reports["forward"]
        assert len(report.delegates) == 1, (backend, report.rejections)
        left = {each.operator for each in report.rejections}
        assert all("quantize_per_tensor" in operator for operator in left), (backend, left)
