# SPDX-License-Identifier: Apache-2.0
"""Batch norm is folded into layers, but not into weights with other uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from delegatec.edge import EdgeProgram, to_edge

BATCH_NORM = "_native_batch_norm_legit_no_training"


def statistics(module: nn.Module) -> nn.Module:
    """The module with parameters and statistics that are not those of a fresh one."""
    generator = torch.Generator().manual_seed(0)
    for norm in module.modules():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            for name in ("weight", "bias", "running_mean", "running_var"):
                tensor = getattr(norm, name)
                if tensor is not None:
                    tensor.data = torch.rand(tensor.shape, generator=generator) + 0.25
    return module.eval()


def edge(module: nn.Module, x: torch.Tensor, **options: Any) -> EdgeProgram:
    return to_edge(torch.export.export(module, (x,)), preserve={torch.ops.aten.linear.default}, **options)


def operators(program: EdgeProgram) -> list[str]:
    return [node.target._opname for node in program.graph.nodes if hasattr(node.target, "_opname")]


def run(program: EdgeProgram, x: torch.Tensor) -> torch.Tensor:
    values = [program.constants.get(node.name, x) for node in program.placeholders()]
    result: torch.Tensor = torch.fx.Interpreter(program.graph_module).run(*values)[0]
    return result


FOLDED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolution": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (2, 3, 6, 6)),
    "no bias": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)), (2, 3, 6, 6)),
    "groups": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8)), (2, 4, 6, 6)),
    "one dimension": (lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4)), (2, 3, 9)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3), nn.BatchNorm2d(4)), (2, 3, 5, 5)),
    "transposed, groups": (
        lambda: nn.Sequential(nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2, bias=False), nn.BatchNorm2d(4)),
        (2, 6, 5, 5),
    ),
    "linear": (lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), (3, 5)),
    "before a convolution": (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)), (2, 3, 6, 6)),
    "before, no bias": (lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Conv1d(3, 4, 3, bias=False)), (2, 3, 9)),
    "before, groups": (
        lambda: nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, stride=2, groups=2)),
        (2, 4, 6, 6),
    ),
    "before, depthwise": (
        lambda: nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 8, 3, groups=4)),
        (2, 4, 6, 6),
    ),
    "before, many outputs": (lambda: nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 600)), (2, 3)),
    "before a linear layer, joined": (
        lambda: nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(60, 5, bias=False)),
        (2, 3, 4, 5),
    ),
    "between two layers": (
        lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1), nn.ReLU()),
        (2, 3, 4, 5),
    ),
    "no affine map": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False)),
        (2, 3, 6, 6),
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name: str) -> None:
    build, shape = FOLDED[name]
    module = statistics(build())
    x = torch.rand(shape) - 0.5
    wanted = module(x).detach()
    program = edge(module, x)
    assert BATCH_NORM not in operators(program)
    assert len(program.constants) == 2
    torch.testing.assert_close(run(program, x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3, padding=1)), (2, 3, 6, 6)),
        (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ConvTranspose2d(3, 4, 3)), (2, 3, 6, 6)),
        (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(2), nn.Linear(36, 4)), (2, 3, 6, 6)),
        (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3)), (2, 3, 6, 6)),
    ],
)
def test_layers_behind_that_a_bias_does_not_replace(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    assert BATCH_NORM in operators(edge(statistics(build()), torch.rand(shape)))


def test_computed_statistics_without_weights() -> None:
    """The norm has neither weights nor constant statistics when the pass sees it first."""

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.rand(3))
            self.register_buffer("statistic", -torch.rand(3) - 0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.batch_norm(x, self.mean, self.statistic.abs())

    module, x = Norm(), torch.rand(2, 3, 6, 6)
    torch.testing.assert_close(run(edge(module, x), x), module(x), rtol=1e-5, atol=1e-6)


def test_a_layer_between_two_norms_is_scaled_once() -> None:
    module = statistics(nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    x = torch.rand(2, 3, 6, 6)
    program = edge(module, x)
    assert operators(program).count(BATCH_NORM) == 1
    torch.testing.assert_close(run(program, x), module(x).detach(), rtol=1e-5, atol=1e-6)


class ReadTwice(nn.Module):
    """A norm with another reader than a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return self.layer(y) + y


def test_a_norm_with_another_reader_is_kept() -> None:
    assert BATCH_NORM in operators(edge(statistics(ReadTwice()), torch.rand(1, 3, 4, 4)))


def test_weights_are_rounded_once() -> None:
    module = statistics(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    layer, norm = module
    scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
    wanted = (layer.weight.double() * scale.view(-1, 1, 1, 1)).float().detach()
    program = edge(module, torch.rand(1, 3, 5, 5))
    assert any(torch.equal(tensor, wanted) for tensor in program.constants.values())


class Shared(nn.Module):
    """A weight with two uses, or a result with two."""

    def __init__(self, result: bool) -> None:
        super().__init__()
        self.layer, self.norm, self.result = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), result

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return self.norm(y) + (y if self.result else self.layer(x + 1))


@pytest.mark.parametrize("result", [True, False])
def test_layers_with_other_uses_are_kept(result: bool) -> None:
    program = edge(statistics(Shared(result)), torch.rand(1, 3, 4, 4))
    assert BATCH_NORM in operators(program)


def test_weights_that_keep_their_names_stay() -> None:
    build, shape = FOLDED["convolution"]
    program = edge(statistics(build()), torch.rand(shape), kept={"0.weight"})
    assert BATCH_NORM in operators(program)


def test_a_scale_that_is_not_finite_stays() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, eps=0.0)).eval()
    module[1].running_var.zero_()
    assert BATCH_NORM in operators(edge(module, torch.rand(1, 3, 5, 5)))


def test_weights_beyond_their_dtype_stay() -> None:
    module = nn.Sequential(nn.BatchNorm1d(4, eps=1e-7), nn.Linear(4, 3)).half().eval()
    module[0].running_var.fill_(1e-6)
    module[1].weight.data.fill_(100)
    program = edge(module, torch.full((2, 4), 1e-3).half())
    assert BATCH_NORM in operators(program)
