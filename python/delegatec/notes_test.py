# SPDX-License-Identifier: Apache-2.0
"""Notes of lowerings: when they appear, and when they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.delegation import PartitionRules
from delegatec.diagnostics import DelegatecError
from delegatec.diagnostics.notes import NOTES, Note
from delegatec.edge.quantization.float_regions import float_regions
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model
from delegatec.lowering import lower
from delegatec.quantize.equal_sizes import equal_sizes
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized

IMAGE: Final = torch.rand(1, 8, 9, 10, generator=torch.Generator().manual_seed(0))


class Between(nn.Module):
    """A function between two convolutions."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 12, 3)
        self.function = function
        self.second = nn.Conv2d(12, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = self.function(x)
        return self.second(x)  # type: ignore[no-any-return]


class Tied(nn.Module):
    """A weight that two layers read, which an operator of the CPU separates."""

    def __init__(self, rows: int, is_tied: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(rows, rows, bias=False)
        self.second = nn.Linear(rows, rows, bias=False)
        if is_tied:
            self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).sort().values)  # type: ignore[no-any-return]


def notes(methods: Mapping[str, Any], backend: str, **arguments: Any) -> tuple[Note, ...]:
    """Returns the notes on the only method."""
    lowered = lower(methods, backend, **arguments)
    return lowered.notes.get("forward", ())


def _int8(function: Callable[[Tensor], Tensor], **settings: Any) -> dict[str, Any]:
    return quantized(Between(function), (IMAGE,), Settings(**settings)).methods


def _gated(x: Tensor) -> Tensor:
    return functional.gelu(x).tanh()


# ---- float-activation -------------------------------------------------------------------------------------


def test_activations_in_float_between_int8_layers() -> None:
    methods = _int8(_gated, float_operators=("aten.gelu", "aten.tanh"))
    (note,) = notes(methods, "xnnpack")
    assert note.name == "float-activation"
    what = "aten.gelu, aten.tanh (2 calls) between two int8 layers"
    assert note.message == f"{what}: in floating point on XNNPACK"


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (_gated, {}),
        # computed in int8 anyway: what it reads and writes is quantized
        (functional.gelu, {"float_operators": ("aten.gelu",)}),
        # the runtime has no int8 kernel of a norm, in any program
        (nn.GroupNorm(4, 12), {}),
        (lambda x: x.softmax(1), {}),
        # kept in float on purpose
        (nn.Sequential(nn.Conv2d(12, 12, 1)), {"float_modules": ("function",)}),
    ],
)
def test_no_note_on_what_is_in_int8_or_cannot_be(function: Any, settings: dict[str, Any]) -> None:
    assert notes(_int8(function, **settings), "xnnpack") == ()


def test_no_note_on_the_ends_of_a_network() -> None:
    class Ends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(8, 12, 3), nn.Conv2d(12, 8, 3))

        def forward(self, x: Tensor) -> Tensor:
            return functional.gelu(self.layers(functional.gelu(x).tanh())).tanh()

    methods = quantized(Ends(), (IMAGE,), Settings(float_operators=("aten.gelu", "aten.tanh"))).methods
    assert notes(methods, "xnnpack") == ()


def test_a_region_has_an_int8_value_at_each_end() -> None:
    graph = torch.fx.Graph()
    start = graph.placeholder("start")
    first, second = (graph.call_function(torch.ops.aten.tanh.default, (start,)) for _ in range(2))
    last = graph.call_function(torch.ops.aten.sin.default, (first,))
    side = graph.call_function(torch.ops.aten.cos.default, (first,))
    sink = graph.call_function(torch.ops.aten.relu.default, (last,))
    for node in (start, first, second, last, side):
        node.meta["val"] = torch.empty(2)
    sink.meta["val"] = torch.empty(2, dtype=torch.int8)
    found = float_regions(list(graph.nodes), lambda node: node is start, lambda node: node is sink)
    assert found == [[first, last]]
    assert float_regions(list(graph.nodes), lambda node: node is second, lambda node: node is sink) == []


def test_a_call_joins_regions_once() -> None:
    """Two of its operands are of one other region."""
    graph = torch.fx.Graph()
    start = graph.placeholder("start")
    first, second = (graph.call_function(torch.ops.aten.tanh.default, (start,)) for _ in range(2))
    third = graph.call_function(torch.ops.aten.sin.default, (second,))
    joined = graph.call_function(torch.ops.aten.cat.default, ([first, second, third],))
    sink = graph.call_function(torch.ops.aten.relu.default, (joined,))
    for node in (start, first, second, third, joined):
        node.meta["val"] = torch.empty(2)
    sink.meta["val"] = torch.empty(2, dtype=torch.int8)
    found = float_regions(list(graph.nodes), lambda node: node is start, lambda node: node is sink)
    assert found == [[first, second, third, joined]]


def test_operators_on_the_cpu_between_int8_delegates() -> None:
    rules = PartitionRules(block_operators=("aten.tanh",))
    options = {"stage": "tosa"}
    (note,) = notes(_int8(torch.tanh), "ethos_u", options=options, rules=rules)
    assert (note.name, note.message) == (
        "float-activation",
        "aten.tanh between two int8 layers: in floating point on the CPU",
    )
    assert notes(_int8(torch.tanh), "ethos_u", options=options) == ()
    assert notes(_int8(torch.tanh), "portable") == ()


# ---- duplicated-weights -----------------------------------------------------------------------------------


def test_weights_that_two_delegates_store() -> None:
    methods = export(Model(Tied(64), (torch.rand(2, 64),)))
    (note,) = notes(methods, "mps", rules=PartitionRules(block_operators=("aten.sort",)))
    assert note.name == "duplicated-weights"
    owners = "lowered_0 of forward and lowered_1 of forward"
    assert note.message == f"second.weight, 16384 B in the model, stored again in {owners}"


@pytest.mark.parametrize(
    ("module", "backend"),
    [
        (Tied(64), "xnnpack"),
        (Tied(64), "vulkan"),
        (Tied(64), "mlx"),
        (Tied(64, is_tied=False), "mps"),
        (Tied(16), "mps"),
    ],
)
def test_no_note_on_shared_or_small_weights(module: nn.Module, backend: str) -> None:
    """XNNPACK, Vulkan and MLX store weights once, next to their delegates."""
    methods = export(Model(module, (torch.rand(2, module.first.in_features),)))  # type: ignore[union-attr, arg-type]
    lowered = lower(methods, backend, rules=PartitionRules(block_operators=("aten.sort",)))
    assert len(lowered.reports["forward"].delegates) == 2
    assert lowered.notes == {}


def test_weights_of_two_methods() -> None:
    layer, x = nn.Linear(64, 64, bias=False), torch.rand(2, 64)
    model = Model(layer, methods={"one": Method("forward", (x[:1],)), "two": Method("forward", (x,))})
    found = lower(export(model), "mps").notes
    assert [note.message for several in found.values() for note in several] == [
        "weight, 16384 B in the model, stored again in lowered_0 of one and lowered_0 of two"
    ]


# ---- equal-sizes ------------------------------------------------------------------------------------------


def _dynamic() -> dict[str, Any]:
    rows = torch.export.Dim("rows", min=1, max=16)
    return export(Model(nn.Linear(4, 4), (torch.rand(3, 4),), dynamic_shapes={"input": {0: rows}}))


def test_a_dynamic_size_that_all_samples_have() -> None:
    samples = {"forward": [((torch.rand(5, 4),), {}) for _ in range(3)]}
    ((note,),) = equal_sizes(_dynamic(), samples).values()
    assert (note.name, note.message) == (
        "equal-sizes",
        "dimension 0 of the input input is dynamic, and 5 in all 3 samples",
    )


@pytest.mark.parametrize("sizes", [(5, 6), (5,), (), (5, 5, 4)])
def test_no_note_on_sizes_that_vary_or_one_sample(sizes: tuple[int, ...]) -> None:
    samples = {"forward": [((torch.rand(size, 4),), {}) for size in sizes]}
    assert equal_sizes(_dynamic(), samples) == {}


def test_no_note_on_static_sizes() -> None:
    methods = export(Model(nn.Linear(4, 4), (torch.rand(3, 4),)))
    assert equal_sizes(methods, {"forward": [((torch.rand(3, 4),), {}) for _ in range(3)]}) == {}


# ---- avoided-fault, and all of them -----------------------------------------------------------------------


def test_what_a_device_needed() -> None:
    methods = export(Model(Between(nn.Conv2d(12, 12, 1)), (IMAGE,)))
    assert notes(methods, "vulkan", options={"device": "adreno-840"}) == ()

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(8, 192, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)  # type: ignore[no-any-return]

    (note,) = notes(export(Model(Wide(), (IMAGE,))), "vulkan", options={"device": "adreno-840"})
    assert note.name == "avoided-fault"
    assert note.message.startswith(
        "for adreno-840, computes 200 output channels instead of 192: with 192, results"
    )


@pytest.mark.parametrize("silenced", [["duplicated-weights"], list(NOTES)])
def test_silenced_notes(silenced: list[str]) -> None:
    methods = export(Model(Tied(64), (torch.rand(2, 64),)))
    rules = PartitionRules(block_operators=("aten.sort",))
    assert notes(methods, "mps", rules=rules, silenced_notes=silenced) == ()


def test_unknown_kinds_of_notes() -> None:
    methods = export(Model(Tied(4), (torch.rand(2, 4),)))
    with pytest.raises(DelegatecError, match="DC425") as caught:
        lower(methods, "mps", silenced_notes=["transposed-inputs"])
    (problem,) = caught.value.diagnostics
    assert problem.help == "did you mean 'transposed-input'?"
