# SPDX-License-Identifier: Apache-2.0
"""Scatters with replacement and accumulation, against eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.backends.common.testing import Compiled, X, Y, eager, floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, check_specified, rejected, run_case
from delegatec.backends.mps.testing import compile_module, operations
from delegatec.delegation import PartitionRules, RuledPartitioner, to_backend
from delegatec.edge import to_edge

aten = torch.ops.aten
INDICES = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(n)) for n in range(6)])
INDICES = INDICES.view(2, 3, 4)
REPEATED = ints(2, 3, 4, high=4)
NEGATIVE = torch.tensor([-1, 0])
LARGE = torch.tensor([[16777217, -2147483647, 33554433, 5], [-7, 2147483647, 0, 16777219]])
HUGE = LARGE * 4294967297 + 3
FLAGS = torch.tensor([[True, False, True, True], [False, False, True, False]])
MASK = X > 0


def put(x: torch.Tensor, indices: list[Any], values: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    result: torch.Tensor = aten.index_put.default(x, indices, values, accumulate)
    return result


def cache(keys: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    keys = keys.clone()
    keys[:, :, at] = new
    return keys * 2


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "slice_scatter": (
        lambda x, y: torch.slice_scatter(x, y, 2, 1, 3),
        (X, floats(2, 3, 2)),
        "Slice Slice Cat",
    ),
    "slice_scatter at the end": (lambda x, y: x.slice_scatter(y, 1, -1), (X, floats(2, 1, 4)), "Slice Cat"),
    "slice_scatter with a step": (
        lambda x, y: torch.slice_scatter(x, y, 2, 0, 4, 2) + 0.5,
        (X, floats(2, 3, 2)),
        "IndexPut Add",
    ),
    "slice_scatter of int64": (lambda x, y: x.slice_scatter(y, 1, 1, 4, 2) * 1, (HUGE, HUGE[:, :2]), ""),
    "select_scatter": (lambda x, y: x.select_scatter(y, 1, -1), (X, floats(2, 4)), ""),
    "setting of slices": (lambda x: set_slices(x), (X,), ""),
    "key cache": (cache, (floats(1, 2, 8, 4), floats(1, 2, 1, 4), torch.tensor([3])), ""),
    "key cache, several": (cache, (floats(1, 2, 8, 4), floats(1, 2, 2, 4), torch.tensor([6, 7])), ""),
    "index_put": (
        lambda x, y, i: put(x, [None, i], y),
        (X, floats(2, 2, 4), NEGATIVE),
        "Cast Lt Add Where IndexPut",
    ),
    "index_put of one value": (lambda x, y, i: put(x, [i], y), (X, torch.tensor(0.5), NEGATIVE), ""),
    "index_put that broadcasts": (
        lambda x, y, i: put(x, [None, None, i], y),
        (X, floats(3, 1), NEGATIVE),
        "",
    ),
    "index_put by rank 2": (
        lambda x, y, i: put(x, [None, i], y),
        (X, floats(2, 1, 4), torch.tensor([[0], [2]])),
        "",
    ),
    "index_put side by side": (lambda x, y, i: put(x, [None, i, i], y), (X, floats(2, 2), NEGATIVE), ""),
    "index_put apart": (lambda x, y, i: put(x, [i, None, i], y), (X, floats(2, 3), NEGATIVE), ""),
    "index_put that broadcasts indices": (
        lambda x, y, i, j: put(x, [i, None, j], y),
        (X, floats(2, 1, 1), NEGATIVE, torch.tensor([[0], [3]])),
        "",
    ),
    "index_put of int64": (lambda x, y, i: put(x, [None, i], y), (HUGE, HUGE[:, 2:], NEGATIVE), ""),
    "index_put of int32": (
        lambda x, y, i: put(x, [None, i], y),
        (LARGE.int(), LARGE[:, 2:].int(), NEGATIVE),
        "",
    ),
    "index_put of bool": (lambda x, y, i: put(x, [None, i], y), (FLAGS, ~FLAGS[:, 2:], NEGATIVE), ""),
    "index_put of half": (lambda x, y, i: put(x, [i], y), (X.half(), Y[:2].half(), NEGATIVE), ""),
    "index_put at a mask": (lambda x, m: put(x, [m], torch.tensor(0.5)), (X, MASK), "View View Where"),
    "index_put at a mask in front": (lambda x, y, m: put(x, [m], y), (X, floats(1, 4), MASK[..., 0]), ""),
    "index_put at a trailing mask": (lambda x, y, m: put(x, [None, m], y), (X, floats(2, 1), MASK[0]), ""),
    "setting at a mask": (lambda x, m: set_mask(x, m), (X, MASK[0, 0]), ""),
    "accumulation": (
        lambda x, y, i: put(x, [None, i], y, True),
        (X, floats(2, 5, 4), torch.tensor([0, 2, 0, -1, 0])),
        "",
    ),
    "accumulation of one value": (
        lambda x, y, i: put(x, [i], y, True),
        (X, torch.tensor(0.5), torch.tensor([0, 0, 1])),
        "",
    ),
    "accumulation of int64": (
        lambda x, y, i: put(x, [i], y, True),
        (HUGE, HUGE[:1], torch.tensor([0, 0, 1])),
        "",
    ),
    "accumulation apart": (
        lambda x, y, i: put(x, [i, None, i], y, True),
        (X, floats(3, 3), torch.tensor([0, 1, 0])),
        "",
    ),
    "accumulation of infinity": (
        lambda x, y, i: put(x, [None, i], y, True),
        (X, torch.tensor([[1.0, math.inf, 2, math.nan]]).expand(2, 2, 4).contiguous(), torch.tensor([0, 0])),
        "",
    ),
    "index_add": (
        lambda x, y, i: x.index_add(1, i, y, alpha=2),
        (X, floats(2, 3, 4), torch.tensor([2, 2, 0])),
        "",
    ),
    "index_copy": (lambda x, y, i: x.index_copy(1, i.abs(), y), (X, floats(2, 2, 4), NEGATIVE), ""),
    "index_fill": (lambda x, i: x.index_fill(2, i, 0.25), (X, NEGATIVE), ""),
    "diagonal_scatter": (lambda x, y: x.diagonal_scatter(y, 1, 1, 2), (X, floats(2, 3)), ""),
    "put": (lambda x, y, i: x.put(i - 3, y), (X, floats(3), torch.tensor([0, 4, 9])), ""),
    "scatter": (lambda x, y, i: x.scatter(2, i, y), (X, Y, INDICES), "Cast Scatter"),
    "scatter of one value": (
        lambda x, i: x.scatter(2, i, 0.5),
        (X, INDICES[..., :2]),
        "View Expand Cast Scatter",
    ),
    "scatter of a large scalar": (
        lambda x, i: x.clamp(0, 9).scatter(1, i, 2**40 + 1),
        (HUGE, INDICES[0, :2, :2]),
        "",
    ),
    "scatter of lines of one": (
        lambda x, y, i: x.scatter(1, i, y),
        (floats(2, 4, 1), floats(2, 2, 1), INDICES[:, 0, :2].unsqueeze(-1)),
        "Cast View View View Scatter View",
    ),
    "scatter of fewer lines": (
        lambda x, y, i: x.scatter(2, i[:, :2, :3], y),
        (X, Y, INDICES),
        "",
    ),
    "scatter of rows": (
        lambda x, y, i: x.scatter(1, i.unsqueeze(-1).expand(-1, -1, 4), y),
        (X, floats(2, 2, 4), torch.tensor([[2, 0], [1, 2]])),
        "",
    ),
    "scatter of rank 0": (
        lambda x, y, i: x.mean().scatter(0, i, y) * 2,
        (X, torch.tensor([0.5]), torch.tensor([0])),
        "",
    ),
    "scatter of int64": (lambda x, i: x.scatter(1, i, x * 3), (HUGE // 3, INDICES[0, :2]), ""),
    "scatter of bool": (lambda x, i: x.scatter(1, i, ~x), (FLAGS, INDICES[0, :2]), ""),
    "scatter_add": (lambda x, y, i: x.scatter_add(2, i, y), (X, Y, REPEATED), ""),
    "scatter_add in the middle": (
        lambda x, y, i: x.scatter_add(1, i[:, :2, :3].clamp(max=2), y),
        (X, Y, REPEATED),
        "",
    ),
    "scatter_add of int32": (
        lambda x, y, i: x.scatter_add(1, i, y),
        (LARGE.int(), LARGE.int() // 7, REPEATED[0, :2]),
        "",
    ),
    "scatter_reduce to the largest": (
        lambda x, y, i: x.scatter_reduce(2, i, y, "amax", include_self=False),
        (X, Y, REPEATED),
        "",
    ),
    "scatter_reduce": (lambda x, y, i: x.scatter_reduce(2, i, y, "mean"), (X, Y, REPEATED), ""),
}


def set_slices(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:, ::2] = 0.25
    return y


def set_mask(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[..., mask] = 0.25
    return y


# The precision is one of float32: without it, both are one.
RUNS = [
    (name, precision)
    for name, (_, args, _) in CASES.items()
    for precision in PRECISIONS
    if precision == "fp32" or any(arg.dtype == torch.float32 for arg in args)
]


@pytest.mark.parametrize(("name", "precision"), RUNS)
def test_operator(name: str, precision: str) -> None:
    function, args, expected = CASES[name]
    compiled = run_case(function, args, expected if precision == "fp32" else "", precision)
    check_specified(compiled, args)


class Decoder(torch.nn.Module):
    """Two layers with caches in buffers."""

    first: torch.Tensor
    second: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.zeros(1, 2, 8, 4))
        self.register_buffer("second", torch.zeros(1, 2, 8, 4))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.first[:, :, at] = x
        x = x + self.first.mean(2, keepdim=True)
        self.second.index_copy_(2, at, x)
        return x * self.second.sum()


def test_a_step_with_caches_is_one_delegate() -> None:
    x, at = floats(1, 2, 1, 4), torch.tensor([5])
    compiled = compile_module(Decoder(), (x, at))
    assert (len(compiled.delegates), compiled.report.rejections) == (1, [])
    assert operations(compiled.blobs()[0]).count("IndexPut") == 2
    module = Decoder()
    wanted = module(x, at)
    first, second, result = compiled(x, at)
    for found, value in ((first, module.first), (second, module.second), (result, wanted)):
        torch.testing.assert_close(found, value)


def test_rows_are_replaced_by_one_index_each() -> None:
    function, args, _ = CASES["scatter of rows"]
    assert "IndexPut" in operations(run_case(function, args).blobs()[0])


def test_an_expansion_outside_of_the_delegate_is_an_index_like_others() -> None:
    class Gathers(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            return x.gather(1, i.unsqueeze(-1).expand(2, 3, 4)) * 2

    args = (X, INDICES[..., 0] % 3)
    registry = builtin_backends()
    backend = registry.resolve("mps")
    rules = PartitionRules(block_operators=("aten.expand", "aten.unsqueeze"))
    partitioner = RuledPartitioner(backend.partitioner(backend.compile_specs({})), rules)
    program = to_edge(torch.export.export(Gathers(), args))
    compiled = Compiled(*to_backend(program, partitioner, registry=registry))
    assert [list(d.operators) for d in compiled.report.delegates] == [
        ["aten.gather.default", "aten.mul.Scalar"]
    ]
    torch.testing.assert_close(compiled(*args), list(eager(Gathers(), args)))


@pytest.mark.parametrize(
    ("function", "args", "rule", "message"),
    [
        pytest.param(
            lambda x, y, i: put(x, [i], y, True),
            (FLAGS[0], FLAGS[1, :2], NEGATIVE),
            "accumulate",
            "the dtype is bool",
            id="bools",
        ),
        pytest.param(
            lambda x, y, i: x.scatter_add(0, i, y),
            (floats(4096), floats(2048), ints(2048)),
            "accumulate",
            "8388608 pairs",
            id="too many",
        ),
        pytest.param(
            lambda x, y, m: put(x, [m], y),
            (X, floats(int(MASK.sum())), MASK),
            "argument",
            "values of shape [10]",
            id="values for a mask",
        ),
    ],
)
def test_rejections(function: Callable[..., Any], args: Any, rule: str, message: str) -> None:
    ((_, found, text),) = rejected(function, args)
    assert (found, text.startswith(message)) == (rule, True), text
