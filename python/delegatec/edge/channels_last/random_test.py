# SPDX-License-Identifier: Apache-2.0
"""Random graphs of movements, elementwise operators, reductions, products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import torch
from hypothesis import example, given, settings

from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.optimize import optimize_layout
from delegatec.edge.channels_last.testing import permutations
from delegatec.edge.interpret import interpret
from delegatec.edge.legalize.value import Value, cat, table, value_of
from delegatec.edge.pools.operators import POOLS
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
X: Final = torch.randint(-4, 5, (2, 4, 6, 6), generator=torch.Generator().manual_seed(0)).double()
_MOST: Final = 3000


def _permute(r: Random, x: Value) -> Value:
    dims = r.choice([[0, 2, 3, 1], [0, 3, 1, 2], r.sample(range(x.rank), x.rank)])
    return x.permute(*(dims if len(dims) == x.rank else r.sample(range(x.rank), x.rank)))


def _view(r: Random, x: Value) -> Value:
    sizes = list(x.shape)
    dim = r.randrange(len(sizes)) if sizes else 0
    kind = r.randrange(4)
    if kind == 0 and dim + 1 < len(sizes):
        sizes[dim : dim + 2] = [sizes[dim] * sizes[dim + 1]]
    elif kind == 1 and len(sizes) < 6 and sizes:
        factor = r.choice([each for each in range(1, sizes[dim] + 1) if sizes[dim] % each == 0])
        sizes[dim : dim + 1] = [factor, sizes[dim] // factor]
    elif kind == 2 and len(sizes) < 6:
        sizes.insert(dim, 1)
    elif kind == 3 and len(sizes) == 3:
        sizes = [sizes[2], sizes[0], sizes[1]]
    return x.view(*sizes)


def _constant(r: Random, *shape: int) -> torch.Tensor:
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(r.randrange(99))).double()


def _broadcast(r: Random, x: Value) -> Value:
    sizes = [size if r.random() < 0.5 else 1 for size in x.shape][r.randrange(x.rank + 1) :]
    return r.choice([x.__add__, x.__mul__])(table(x.builder, _constant(r, *sizes)))


def _pad(r: Random, x: Value) -> Value:
    if x.numel > _MOST // 4 or not x.rank:
        return x
    pads = [r.choice([0, 0, 1]) for _ in range(2 * r.randrange(1, x.rank + 1))]
    return x.pad(pads, r.choice([0, 1])) if any(pads) else x


def _slice(r: Random, x: Value) -> Value:
    if not x.rank:
        return x
    dim = r.randrange(x.rank)
    start = r.randrange(x.shape[dim])
    return x.slice(dim, start, r.randrange(start, x.shape[dim]) + 1, r.choice([1, 1, 2]))


def _select(r: Random, x: Value) -> Value:
    if x.rank < 2:
        return x
    dim = r.randrange(x.rank)
    return Value(x.builder, x.builder.call(aten.select.int, x.node, dim, r.randrange(x.shape[dim])))


def _split(r: Random, x: Value) -> Value:
    dim = r.randrange(x.rank) if x.rank else 0
    if not x.rank or x.shape[dim] < 2:
        return x
    size = r.randrange(1, x.shape[dim])
    first, second = x.split([size, x.shape[dim] - size], dim)
    return cat([second, first.relu()], dim)


def _reduce(r: Random, x: Value) -> Value:
    if x.rank < 2:
        return x
    dims = r.sample(range(x.rank), r.randrange(1, x.rank))
    keep = r.random() < 0.7
    target = r.choice([aten.amax.default, aten.amin.default, aten.sum.dim_IntList])
    return Value(x.builder, x.builder.call(target, x.node, dims, keep))


def _along(r: Random, x: Value) -> Value:
    if not x.rank:
        return x
    dim = r.randrange(x.rank)
    flip = r.random() < 0.5
    target: Any = aten.flip.default if flip else aten.cumsum.default
    return Value(x.builder, x.builder.call(target, x.node, [dim] if flip else dim)).clamp(-9, 9)


def _expand(r: Random, x: Value) -> Value:
    if x.numel * 3 > _MOST:
        return x
    if r.random() < 0.5 and x.rank:
        counts = [r.choice([1, 1, 2]) for _ in x.shape]
        counts[r.randrange(x.rank)] = 1
        if x.numel * math.prod(counts) <= _MOST:
            return Value(x.builder, x.builder.call(aten.repeat.default, x.node, counts))
    sizes = [3 if size == 1 and r.random() < 0.5 else size for size in x.shape]
    return x.expand(*sizes) if math.prod(sizes) <= _MOST else x


def _convolve(r: Random, x: Value) -> Value:
    if x.rank != 4 or x.shape[3] > 24:
        return x
    kind, kernel = r.randrange(3), r.choice([1, 1, 3])
    channels = x.shape[3]
    if kind == 2:
        result = x.builder.call(NHWC.max_pool2d.default, x.node, [kernel] * 2, [1, 1], [kernel // 2] * 4)
        return Value(x.builder, result)
    outputs, inputs = (channels, 1) if kind else (r.choice([3, 4, 8]), channels)
    if outputs * math.prod(x.shape[:3]) > _MOST:
        return x
    weight, bias = (
        table(x.builder, _constant(r, *shape)) for shape in ((outputs, kernel, kernel, inputs), (outputs,))
    )
    result = x.builder.call(
        NHWC.conv2d.default,
        *(x.node, weight.node, bias.node, [1, 1], [kernel // 2] * 4, [1, 1], channels if kind else 1),
    )
    return Value(x.builder, result).clamp(-9, 9)


def _pool(r: Random, x: Value) -> Value:
    dims = [dim for dim in range(x.rank) if r.random() < 0.5]
    if not dims:
        return x
    kernel = [r.randint(1, min(3, x.shape[dim])) for dim in dims]
    stride, padding = [r.randint(1, 2) for _ in dims], [size // 2 for size in kernel for _ in (0, 1)]
    if r.random() < 0.5:
        result = x.builder.call(POOLS.maxima.default, x.node, dims, kernel, stride, padding, [1] * len(dims))
    else:
        result = x.builder.call(POOLS.averages.default, x.node, dims, kernel, stride, padding)
    return Value(x.builder, result)


def _product(r: Random, x: Value) -> Value:
    if x.rank not in (2, 3):
        return x
    sizes = (*x.shape[:-2], x.shape[-1], r.choice([3, 4, 8]))
    return (x @ table(x.builder, _constant(r, *sizes))).clamp(-9, 9)


def _transposed(r: Random, x: Value) -> Value:
    """Both a value and its transpose are operands."""
    if x.rank < 2:
        return x
    y = x.permute(*range(x.rank - 2), x.rank - 1, x.rank - 2)
    if x.shape == y.shape and r.random() < 0.3:
        return x + y * 2
    x, y = (each.view(math.prod(each.shape[:-2]), *each.shape[-2:]) for each in (x, y))
    return (x @ y).clamp(-9, 9)


_STEPS: Final[tuple[Callable[[Random, Value], Value], ...]] = (
    *(_permute, _permute, _permute, _view, _view, _broadcast, _pad, _slice, _select, _split, _reduce),
    *(_along, _expand, _convolve, _convolve, _pool, _product, _transposed, _transposed),
    *(lambda _, x: x.relu(), lambda _, x: x * 0.5),
)


def _program(r: Random) -> EdgeProgram:
    program = edge(lambda x: x.neg(), X, passes=())
    output = program.output_node()
    builder = Builder(program).at(output)
    values = [value_of(builder, output.all_input_nodes[0])]
    for _ in range(r.randrange(3, 25)):
        x = r.choice(values[-3:])
        if r.random() < 0.2:
            same = [each for each in values if each.shape == x.shape]
            x = x + r.choice(same) if r.random() < 0.5 or not x.rank else _joined(r, x, r.choice(same))
        else:
            x = r.choice(_STEPS)(r, x)
        if x.numel <= _MOST:
            values.append(x)
    used = [each for each in values if not each.node.users] or values[-1:]
    flat = cat([each.view(each.numel) for each in used], 0)
    output.args = ((flat.node,),)
    program.graph.eliminate_dead_code()
    return program


def _joined(r: Random, x: Value, y: Value) -> Value:
    return cat([x, y], r.randrange(x.rank)) if 2 * x.numel <= _MOST else x


def check(seed: int) -> None:
    """Optimizes a random program, and compares its results."""
    program = _program(Random(seed))
    verify(program)
    before = interpret(program, [X])
    count = permutations(program)
    optimize_layout(program)
    verify(program)
    for wanted, found in zip(before, interpret(program, [X]), strict=True):
        torch.testing.assert_close(found, wanted)
    assert permutations(program) <= count + 2
    optimize_layout(program)
    verify(program)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
@example(264)  # a tensor that has a value and its transpose
def test_random_graphs(seed: int) -> None:
    check(seed)
