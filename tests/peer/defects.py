# SPDX-License-Identifier: Apache-2.0
"""Bugs in the peer: calls for which it fails, or writes a blob that is rejected or wrong.

Found by calling the operators of its registry with arguments that its visitors do not look at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.ao.quantization.fx._decomposed  # The operators of quantization.
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.peer.suite import Call, PeerCase

aten = torch.ops.aten


@dataclass(frozen=True)
class Defect:
    """A call that shows a defect.

    Attributes:
        what: the bug.
        function: a function of torch, or a module.
        args: of it.
    """

    what: str
    function: Callable[..., Any]
    args: tuple[Any, ...]

    def case(self, name: str) -> PeerCase:
        """The call as a case."""
        module = self.function if isinstance(self.function, nn.Module) else Call(self.function)
        return PeerCase(name, module, self.args)


class Embedding(nn.Module):
    """A table in which row 0 represents padding, but is not zero."""

    def __init__(self, padding_idx: int | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 13.0).view(4, 3))
        self.padding_idx = padding_idx

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(ids, self.weight, self.padding_idx)


class Table(nn.Module):
    """A tensor that is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.arange(24.0).view(2, 3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.table


class Int4(nn.Module):
    """A layer whose weights are in [-8, 8), with a scale for each group of 32."""

    def __init__(self) -> None:
        super().__init__()
        seed = torch.Generator().manual_seed(0)
        self.register_buffer("weight", torch.randint(-8, 8, (32, 64), dtype=torch.int8, generator=seed))
        self.register_buffer("scales", torch.rand(32, 2, generator=seed))
        self.register_buffer("zeros", torch.zeros(32, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        arguments = (self.weight, self.scales, self.zeros, -8, 7, torch.int8, 32, torch.float32)
        return F.linear(x, torch.ops.quantized_decomposed.dequantize_per_channel_group(*arguments))


_SEED: Final = torch.Generator().manual_seed(0)


def _rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=_SEED) - 0.5


def _ints(*shape: int) -> torch.Tensor:
    return torch.randint(-9, 9, shape, generator=_SEED)


X: Final = _rand(2, 3, 4)
IMAGE: Final = _rand(1, 4, 8, 8)
N: Final = _ints(2, 3, 4)
DIVISOR: Final = N.abs() + 1
COLUMN: Final = torch.tensor([2, 1])
ROW: Final = torch.tensor([0, 1])

DEFECTS: Final[dict[str, Defect]] = {
    "scalars across partitions": Defect(
        "the id of a number in one partition is used in the next",
        lambda a: torch.sort(a.pow(3)).values.exp().exp().pow(3),
        (X,),
    ),
    "tensor attributes": Defect("an unregistered tensor becomes an input", Table(), (X,)),
    "addmm": Defect(
        "beta and alpha are dropped",
        lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=3),
        (_rand(5), _rand(3, 4), _rand(4, 5)),
    ),
    "conv_transpose2d": Defect("`transposed` is dropped", F.conv_transpose2d, (IMAGE, _rand(4, 4, 3, 3))),
    "conv3d": Defect(
        "the third dimension is dropped", F.conv3d, (_rand(1, 2, 4, 4, 4), _rand(2, 2, 3, 3, 3))
    ),
    "conv2d with one padding for both": Defect(
        "a list of one number is handled like that of conv1d",
        lambda x, w: aten.convolution.default(x, w, None, [1, 1], [1], [1, 1], False, [0, 0], 1),
        (IMAGE, _rand(6, 4, 3, 3)),
    ),
    "depthwise with several results a channel": Defect(
        "MPSGraph's depthwise convolution has one result per channel",
        lambda x, w: F.conv2d(x, w, None, groups=4),
        (IMAGE, _rand(8, 1, 3, 3)),
    ),
    "avg_pool2d with a divisor": Defect(
        "count_include_pad is dropped; in float16 the runtime aborts",
        lambda a: F.avg_pool2d(a, 3, 2, padding=1, count_include_pad=False, divisor_override=5),
        (IMAGE,),
    ),
    "avg_pool2d with ceil_mode": Defect(
        "without padding, the padding of the last window is zero",
        lambda a: F.avg_pool2d(a, 3, 2, ceil_mode=True),
        (_rand(1, 1, 6, 6),),
    ),
    "max_pool2d with ceil_mode and padding": Defect(
        "it pads for nonexistent windows",
        lambda a: F.max_pool2d(a, 3, 2, padding=1, ceil_mode=True),
        (_rand(1, 1, 5, 5),),
    ),
    "max_pool2d without a stride": Defect(
        "the stride is missing", lambda a: F.max_pool2d(a, 2), (IMAGE,)
    ),
    "avg_pool2d without a stride": Defect(
        "the stride is missing", lambda a: aten.avg_pool2d.default(a, [2, 2]), (IMAGE,)
    ),
    "indices of max_pool2d": Defect(
        "they are int32, and declared as int64",
        lambda a: F.max_pool2d(a, 2, 2, return_indices=True)[1],
        (IMAGE,),
    ),
    "cast to integers": Defect(
        "a cast becomes an alias of its operand", lambda a: a.to(torch.int32) + 1, (X * 9,)
    ),
    "cast to float16": Defect(
        "a cast becomes an alias of its operand", lambda a: a.to(torch.float16) + 1, (X * 9,)
    ),
    "gelu, tanh": Defect(
        "the runtime computes x tanh(x) for it", lambda a: F.gelu(a, approximate="tanh"), (X * 4,)
    ),
    "embedding with a row for padding": Defect(
        "the runtime zeroes that row, which is for training only", Embedding(0), (torch.tensor([[0, 1]]),)
    ),
    "expand to a higher rank": Defect(
        "the runtime reads one size per dimension of the operand",
        lambda a: a.exp().expand(2, 2, 3, 4),
        (X,),
    ),
    "squeeze of no dimension": Defect(
        "an empty list is the first dimension to the runtime", lambda a: a.exp().squeeze(1), (X,)
    ),
    "NaN": Defect("its JSON does not support NaN", lambda a: torch.full_like(a, float("nan")) + a, (X,)),
    "full of bools": Defect(
        "its JSON does not support bools",
        lambda a: torch.where(torch.full((4,), True), a, a * 2),
        (X,),
    ),
    "full of integers": Defect(
        "they are float32 without a dtype", lambda a: torch.full((4,), 3) + a, (N,)
    ),
    "int32 and a number": Defect(
        "the number is an int64 that is declared as int32", lambda a: a + 3, (N.int(),)
    ),
    "comparison of integers with a number": Defect(
        "the number is a float32 that is declared as int64", lambda a: a > 0.5, (N,)
    ),
    "indices of several dimensions": Defect(
        "a graph of one Metal kernel, which no runtime supports",
        lambda a, i, j: a[:, i, j] * 1.5,
        (X, ROW, COLUMN),
    ),
    "an index for each dimension": Defect(
        "the runtime supports one index", lambda a, i, j: a[i, j], (X[0], ROW, COLUMN)
    ),
    "index_put with several indices": Defect(
        "the runtime supports one index",
        lambda a, i, j, v: a.index_put((i, j), v),
        (X[0], ROW, COLUMN, _rand(2)),
    ),
    "index_put with accumulate": Defect(
        "accumulate is dropped",
        lambda a, i, v: a.index_put((i,), v, accumulate=True),
        (X[0], torch.tensor([1, 1]), _rand(2, 4)),
    ),
    "negative indices": Defect(
        "they are passed to MPSGraph, which does not count from the end",
        lambda a, i: a[i] * 1.5,
        (X, torch.tensor([0, -1])),
    ),
    "slice without an end": Defect(
        "the start is dropped with it", lambda a: aten.slice.Tensor(a.exp(), 2, 1), (X,)
    ),
    "slice_scatter from the end": Defect(
        "a negative start is not counted from the end",
        lambda a, b: a.exp().slice_scatter(b, 0, -1),
        (X, X[:1] * 2),
    ),
    "slice_scatter beyond the end": Defect(
        "an end beyond the size is kept", lambda a, b: a.exp().slice_scatter(b, 1, 1, 99), (X, X[:, :2])
    ),
    "hardtanh without bounds": Defect(
        "its defaults are missing", lambda a: aten.hardtanh.default(a), (X * 9,)
    ),
    "constant_pad_nd without a value": Defect(
        "its default is missing", lambda a: aten.constant_pad_nd.default(a.exp(), [1, 2]), (X,)
    ),
    "padding of four dimensions": Defect(
        "the runtime pads three", lambda a: F.pad(a.exp(), (1,) * 8), (_rand(2, 2, 2, 2),)
    ),
    "negative padding": Defect("the runtime does not crop", lambda a: F.pad(a.exp(), (-1, 1)), (X,)),
    "split_with_sizes without a dimension": Defect(
        "its default is missing", lambda a: aten.split_with_sizes.default(a.exp(), [1, 1]), (X,)
    ),
    "layer_norm without weights": Defect(
        "the runtime reads the missing weight and bias", lambda a: F.layer_norm(a, (4,)), (X,)
    ),
    "batch_norm without weights": Defect(
        "the runtime reads the missing weight and bias",
        lambda a, m, v: F.batch_norm(a, m, v),
        (IMAGE, _rand(4), _rand(4) + 1),
    ),
    "mean of all dimensions": Defect(
        "the runtime reduces nothing for an empty list", lambda a: aten.mean.dim(a, []), (X,)
    ),
    "mean of integers": Defect(
        "its dtype is dropped", lambda a: a.mean(1, dtype=torch.float32), (N,)
    ),
    "division of integers": Defect(
        "MPSGraph divides them as integers", lambda a, b: a / b, (N, DIVISOR)
    ),
    "division of integers with rounding": Defect(
        "the runtime rounds them in float32, and declares an integer",
        lambda a, b: torch.div(a, b, rounding_mode="floor"),
        (N, DIVISOR),
    ),
    "truncation in float16": Defect("the runtime aborts", torch.fmod, (X * 9, X.abs() + 1)),
    "exp of integers": Defect("MPSGraph supports it for floats only", torch.exp, (N,)),
    "softmax of integers": Defect(
        "its dtype is dropped", lambda a: a.softmax(0, dtype=torch.float32), (N,)
    ),
    "log_softmax of small probabilities": Defect(
        "the runtime computes the logarithm of values that underflow",
        lambda a: a.log_softmax(-1),
        (torch.tensor([[0.0, 200.0]]),),
    ),
    "logical_not of floats": Defect(
        "MPSGraph supports it for bool only", lambda a: a.logical_not(), (X.round(),)
    ),
    "round of halves": Defect(
        "Metal rounds them away from zero", torch.round, (torch.tensor([0.5, 1.5, 2.5, -0.5]),)
    ),
    "bounds of large integers": Defect(
        "they are float32 in the format",
        lambda a: a.clamp(max=16777217),
        (torch.tensor([16777219, 5]),),
    ),
    "operands of two dtypes": Defect(
        "where and cat do not promote", lambda a, b: torch.where(a > 0, a, b), (X, N)
    ),
    "float64": Defect("it is declared as float32", lambda a: a + 1, (X.double(),)),
    "uint8": Defect("the runtime does not support the dtype", lambda a: a + 1, (N.abs().to(torch.uint8),)),
    "int4 weights": Defect("they are packed on a Mac", Int4(), (_rand(1, 64),)),
}  # fmt: skip
