# SPDX-License-Identifier: Apache-2.0
"""Values of one range: narrow ones that others read are not coarse because of a wide one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.edge.quantization.operators import DEQUANTIZE
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.annotate.observers import MaskedHistogramObserver
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings
from delegatec.quantize.switches.switched import Switched
from delegatec.quantize.testing import quantized, signal_to_noise, text

_X: Final = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))
_MASK: Final = _X > 0.5


class Branches(nn.Module):
    """A layer on the result of another one, and a call that widens the range of this result."""

    def __init__(self, widened: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.widened = nn.Linear(8, 8), nn.Linear(8, 8), widened

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(x)
        return self.second(x), self.widened(x, mask)


_WIDENED: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "a fill": lambda x, mask: x.masked_fill(mask, 100),
    "a selection": lambda x, mask: torch.where(mask, x, 100 - x),
    "a concatenation": lambda x, mask: torch.cat([50 * x, x]),
    "padding": lambda x, mask: F.pad(x, (1, 1), value=-40.0),
    "padding of a view": lambda x, mask: F.pad(x.view(8, 16)[:, 1:], (1, 1), value=-40.0),
    "a scattered number": lambda x, mask: x.scatter(1, mask.long(), 100.0),
    "a comparison": lambda x, mask: (x < 20 * x.flip(0)).float(),
    "a constant": lambda x, mask: torch.cat([x, torch.full((2, 8), 70.0)]),
    "two calls": lambda x, mask: torch.cat([x.masked_fill(mask, 30), 900 * x]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "settings", [{}, {"observer": "minmax", "ranges": "symmetric"}], ids=["", "symmetric"]
)
@pytest.mark.parametrize("name", _WIDENED)
def test_a_narrow_operand_that_others_read_stays_fine(name: str, settings: dict[str, Any]) -> None:
    module = Branches(_WIDENED[name])
    program = quantized(module, (_X, _MASK), Settings(**settings)).methods["forward"]
    with torch.no_grad():
        exact, found = module(_X, _MASK), program.module(check_guards=False)(_X, _MASK)
    assert signal_to_noise(exact[0], found[0]) > 30
    assert exact[1].count_nonzero() and signal_to_noise(exact[1], found[1]) > 15


def test_the_operand_is_quantized_again_for_the_call_alone() -> None:
    expected = [
        "linear:1 = linear(input:0, first_weight:channels, first_bias:channels)",
        "linear_1:2 = linear(linear:1, second_weight:channels, second_bias:channels)",
        "masked_fill:3 = masked_fill.Scalar(linear:1:3, mask)",
        "return linear_1:2, masked_fill:3",
    ]
    printed = text(Branches(_WIDENED["a fill"]), (_X, _MASK)).replace("x:0", "input:0")
    assert printed.splitlines() == expected


def _is_near(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(mask, 2.0)


def _is_narrow_part(x: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([x[:1] * 0.01, x])


@pytest.mark.parametrize("widened", [_is_near, _is_narrow_part])
def test_other_ranges_stay_common(widened: Callable[[Tensor, Tensor], Tensor]) -> None:
    last = text(Branches(widened), (_X, _MASK)).splitlines()[-2]
    result, _, operands = last.partition(" = ")
    assert operands.count(":") == operands.count(result[result.index(":") :]), last


def test_a_value_without_other_readers_has_the_range_of_the_call() -> None:
    class Filled(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return (x * 2).flip(0).masked_fill(mask, 100)

    assert text(Filled(), (_X, _MASK)).splitlines() == [
        "mul:1 = mul.Tensor(x:0)",
        "flip:1 = flip(mul:1)",
        "masked_fill:1 = masked_fill.Scalar(flip:1, mask)",
        "return masked_fill:1",
    ]


def test_biases_have_the_scale_of_the_separated_operand() -> None:
    program = quantized(Branches(_WIDENED["a fill"]), (_X, _MASK), Settings()).methods["forward"]
    layer = [node for node in program.graph.nodes if node.target is torch.ops.aten.linear.default][1]
    x, weight, bias = layer.args
    assert x.target is DEQUANTIZE
    names = program.graph_signature.inputs_to_buffers
    scales = [program.state_dict[names[each.args[1].name]] for each in (weight, bias)]
    assert torch.allclose(x.args[1] * scales[0], scales[1], rtol=1e-5)


def test_inputs_are_quantized_values_and_the_search_computes_the_same() -> None:
    class Filled(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x.masked_fill(mask, 100)

    methods = export(Model(Filled(), (_X, _MASK)))
    switches: list[Switched] = []
    samples: dict[str, list[Sample]] = {"forward": [((_X, _MASK), {})]}
    model = quantize_model(methods, samples, Settings(), keep=switches.append)
    found = model.methods["forward"].module(check_guards=False)(_X, _MASK)
    for value, other in zip(switches[0].outputs((_X, _MASK), ()), found, strict=True):
        assert torch.equal(value, other)
    model = quantize_model(methods, samples, Settings(quantize_io=True))
    assert model.inputs["forward"]["x"].scale < 0.03 < 0.3 < model.outputs["forward"][1].scale


def test_a_common_range_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    search = MaskedHistogramObserver._best_bins

    def counted(observer: Any) -> Any:
        searched.append(observer)
        return search(observer)

    monkeypatch.setattr(MaskedHistogramObserver, "_best_bins", counted)
    quantized(nn.Sequential(nn.Linear(8, 8), nn.Flatten(0), nn.Unflatten(0, (4, 32))), (_X,), Settings())
    assert len(searched) == len({id(each) for each in searched}) == 2
