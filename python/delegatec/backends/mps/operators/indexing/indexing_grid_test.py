# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters: the operations that they become, wide integers, state, and rejections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends import builtin_backends
from delegatec.backends.common.testing import BOOL, Compiled, X, eager, floats, ints
from delegatec.backends.mps.testing import compile_module, operations
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case
from delegatec.delegation import PartitionRules, RuledPartitioner, to_backend
from delegatec.edge import to_edge

aten = torch.ops.aten
ROWS = torch.tensor([1, 0, 1])
COLUMNS = torch.tensor([[2], [0]])
NEGATIVE = torch.tensor([-1, 0, -2])
INDICES = ints(2, 3, 4, high=4)
LARGE = torch.tensor([[16777217, -2147483647, 33554433, 5], [-7, 2147483647, 0, 16777219]])
HUGE = LARGE * 4294967297 + 3
FLAGS = torch.tensor([[True, False, True, True], [False, False, True, False]])
MASK = X > 0
UNIQUE = torch.tensor([[[2], [0]], [[1], [2]]])
INFINITE = torch.tensor([[1.0, math.inf, 2, math.nan]]).expand(2, 2, 4).contiguous()


def put(x: torch.Tensor, indices: list[Any], values: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    result: torch.Tensor = aten.index_put.default(x, indices, values, accumulate)
    return result


def cache(keys: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    keys = keys.clone()
    keys[:, :, at] = new
    return keys * 2


def set_slices(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:, ::2] = 0.25
    return y


def set_mask(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[..., mask] = 0.25
    return y


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "embedding of one": (F.embedding, (torch.tensor(3), floats(5, 4)), "View Embedding View"),
    "embedding with padding": (
        lambda i, w: F.embedding(i, w, padding_idx=0),
        (torch.tensor([[0, 1], [2, 0]]), floats(5, 4)),
        "Embedding",
    ),
    "embedding of int64": (lambda i, w: F.embedding(i, w) * 1, (ints(2, 3, high=2), HUGE), ""),
    "index_select of one": (lambda x, i: x.index_select(1, i), (X, torch.tensor(2)), "View IndexSelect"),
    "index": (lambda x, i: x[:, i.clamp(min=0)] + 0, (X, COLUMNS), "Clamp Cast IndexTensor Add"),
    "index negative": (lambda x, i: x[..., i], (X, NEGATIVE), "Cast Lt Add Where IndexTensor"),
    "index by one": (lambda x, i: x[torch.stack([i, i])], (X, torch.tensor(-1)), ""),
    "an index by arange": (lambda x, i: x[torch.arange(2), i.abs()[:2]] * 2, (X, NEGATIVE), ""),
    "index of int64": (lambda x, i, j: x[i, j], (HUGE, ROWS, COLUMNS), ""),
    "gather of rows": (
        lambda x, i: x.gather(1, i.clamp(max=2).unsqueeze(-1).expand(2, 4, 4)),
        (X, INDICES[:, 0]),
        "Clamp Unsqueeze Cast View Add View IndexSelect",
    ),
    "gather of columns": (lambda x, i: x.gather(2, i.expand(2, 3, 5)), (X, INDICES[0, 0, :1]), ""),
    "gather on all sides": (
        lambda x, i: x.gather(1, i.view(1, -1, 1).expand(2, -1, 4)),
        (X, torch.tensor([2, 0])),
        "",
    ),
    "gather of int64": (lambda x, i: x.gather(1, i), (HUGE, INDICES[0, :2]), ""),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i[:1], 2), (X, INDICES), ""),
    "take": (lambda x, i: torch.take(x, i - 3), (X, INDICES), ""),
    "flip": (lambda x: (x * 2).flip(0, -1), (X,), "Mul IndexSelect IndexSelect"),
    "flip of int64": (lambda x: x.flip(1).clamp(min=-9), (HUGE,), ""),
    "rot90": (lambda x: torch.rot90(x, 1, (1, 2)) * 2, (X,), ""),
    "unfold": (lambda x: (x * 2).unfold(2, 2, 1), (X,), "Mul Add IndexSelect"),
    "unfold side by side": (lambda x: (x * 2).unfold(1, 1, 1), (X,), ""),
    "unfold with gaps": (lambda x: (x * 2).unfold(-1, 1, 3), (X,), ""),
    "one_hot": (lambda i: F.one_hot(i, 5).float() * 2, (ints(3),), ""),
    "embedding_bag": (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="mean"),
        (torch.tensor([0, 3, 1, 2]), floats(4, 3), torch.tensor([0, 3])),
        "",
    ),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 2, 1, 3), (X, floats(2, 3, 2)), "Slice Slice Cat"),
    "slice_scatter at the end": (lambda x, y: x.slice_scatter(y, 1, -1), (X, floats(2, 1, 4)), "Slice Cat"),
    "slice_scatter with a step": (
        lambda x, y: x.slice_scatter(y, 2, 0, 4, 2) + 0.5,
        (X, floats(2, 3, 2)),
        "IndexPut Add",
    ),
    "slice_scatter of int64": (lambda x, y: x.slice_scatter(y, 1, 1, 4, 2) * 1, (HUGE, HUGE[:, :2]), ""),
    "setting of slices": (set_slices, (X,), ""),
    "setting at a mask": (set_mask, (X, MASK[0, 0]), ""),
    "key cache": (cache, (floats(1, 2, 8, 4), floats(1, 2, 1, 4), torch.tensor([3])), ""),
    "key cache, several": (cache, (floats(1, 2, 8, 4), floats(1, 2, 2, 4), torch.tensor([6, 7])), ""),
    "index_put": (
        lambda x, y, i: put(x, [None, i], y),
        (X, floats(2, 2, 4), NEGATIVE[:2]),
        "Cast Lt Add Where IndexPut",
    ),
    "index_put of int64": (lambda x, y, i: put(x, [None, i], y), (HUGE, HUGE[:, 2:], NEGATIVE[:2]), ""),
    "index_put at a mask": (lambda x, m: put(x, [m], torch.tensor(0.5)), (X, MASK), "View View Where"),
    "accumulation of int64": (lambda x, y, i: put(x, [i], y, True), (HUGE, HUGE[:1], ROWS), ""),
    "accumulation of infinity": (
        lambda x, y, i: put(x, [None, i], y, True),
        (X, INFINITE, torch.tensor([0, 0])),
        "",
    ),
    "index_add": (lambda x, y, i: x.index_add(1, i, y, alpha=2), (X, X * 3, torch.tensor([2, 2, 0])), ""),
    "index_copy": (lambda x, y, i: x.index_copy(1, i.abs(), y), (X, X * 3, NEGATIVE), ""),
    "index_fill": (lambda x, i: x.index_fill(2, i, 0.25), (X, NEGATIVE), ""),
    "diagonal_scatter": (lambda x, y: x.diagonal_scatter(y, 1, 1, 2), (X, floats(2, 3)), ""),
    "put": (lambda x, y, i: x.put(i - 3, y), (X, floats(3), torch.tensor([0, 4, 9])), ""),
    "scatter": (lambda x, y, i: x.scatter(1, i, y), (X, X[:, :2, :1] * 3, UNIQUE), ""),
    "scatter of one value": (lambda x, i: x.scatter(1, i, 0.5), (X, UNIQUE), ""),
    "scatter of a large scalar": (
        lambda x, i: x.clamp(0, 9).scatter(1, i, 2**40 + 1),
        (HUGE, UNIQUE[..., 0]),
        "",
    ),
    "scatter of lines of one": (
        lambda x, y, i: x.scatter(1, i, y),
        (floats(2, 4, 1), floats(2, 2, 1), UNIQUE),
        "Cast View View View Scatter View",
    ),
    "scatter of rows": (
        lambda x, y, i: x.scatter(1, i.expand(-1, -1, 4), y),
        (X, floats(2, 2, 4), UNIQUE),
        "",
    ),
    "scatter of int64": (lambda x, i: x.scatter(1, i, x * 3), (HUGE // 3, UNIQUE[..., 0]), ""),
    "scatter_reduce to the largest": (
        lambda x, y, i: x.scatter_reduce(2, i, y, "amax", include_self=False),
        (X, X * 3, INDICES),
        "",
    ),
    "scatter_reduce": (lambda x, y, i: x.scatter_reduce(2, i, y, "mean"), (X, X * 3, INDICES), ""),
}


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
    run_case(function, args, expected if precision == "fp32" else "", precision)


def test_integers_that_are_small_are_moved_at_once() -> None:
    compiled = run_case(lambda x, i: x.clamp(-9, 9)[:, i], (LARGE, NEGATIVE))
    assert operations(compiled.blobs()[0]).count("IndexTensor") == 1
    compiled = run_case(lambda x, i: x[:, i], (LARGE, NEGATIVE))
    assert operations(compiled.blobs()[0]).count("IndexTensor") == 3


def test_an_index_is_wrapped_once_for_all() -> None:
    compiled = run_case(lambda x, i: (x[..., i], (x * 2)[..., i]), (X, NEGATIVE))
    assert operations(compiled.blobs()[0]).count("Where") == 1


def test_positions_are_computed_once() -> None:
    compiled = run_case(lambda x, i: (x.gather(2, i), (x * 2).gather(2, i)), (X, INDICES))
    assert operations(compiled.blobs()[0]).count("Add") == 2
    compiled = run_case(lambda x, i, j: (x[i, j], (x * 2)[i, j]), (X, ROWS, COLUMNS))
    assert operations(compiled.blobs()[0]).count("Mul") == 2


def test_no_constant_has_the_size_of_a_result() -> None:
    x = floats(64, 64)
    compiled = run_case(lambda x, i: x.gather(1, i) * 2, (x, ints(64, 64)))
    assert len(compiled.blobs()[0]) < 64 * 64 * 4


def test_a_mask_is_rejected() -> None:
    left = rejected(lambda x, m: x[m] * 2, (floats(3), BOOL))
    assert left[0][:2] == ("aten.index.Tensor", "dynamic-shape")


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


def accumulated(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return put(x, [i], y, True)


@pytest.mark.parametrize(
    ("function", "args", "rule", "message"),
    [
        (accumulated, (FLAGS[0], FLAGS[1, :2], NEGATIVE[:2]), "accumulate", "the dtype is bool"),
        (
            lambda x, y, i: x.scatter_add(0, i, y),
            (floats(4096), floats(2048), ints(2048)),
            "accumulate",
            "8388608 pairs",
        ),
        (
            lambda x, y, m: put(x, [m], y),
            (X, floats(int(MASK.sum())), MASK),
            "argument",
            "values of shape [10]",
        ),
    ],
    ids=["bools", "too many", "values for a mask"],
)
def test_rejections(function: Callable[..., Any], args: Any, rule: str, message: str) -> None:
    ((_, found, text),) = rejected(function, args)
    assert (found, text.startswith(message)) == (rule, True), text
