# SPDX-License-Identifier: Apache-2.0
"""Operators on [n, 8], where n is known only at run time: each at the least, largest and a middle size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle.core_case import Case, Function, noise

_N = Dim("n", min=4, max=16)
_HALF = Dim("half", min=2, max=8)


def _written(x: Tensor) -> Tensor:
    y = torch.zeros(20, 8)
    y[: x.shape[0]] = x
    y[2 : 2 + x.shape[0], :4] += 1
    return y


# Functions of a size.
_ARITHMETIC: dict[str, Callable[[Tensor], Any]] = {
    "ceil_div": lambda x: x.new_zeros(-(-x.shape[0] // 3)),
    "power": lambda x: x.new_ones(x.shape[0] ** 2),
    "minimum": lambda x: x.new_ones(min(x.shape[0], 7)),
    "ratio": lambda x: (x.sum(0) / x.shape[0], x * (x.shape[0] / 3), x * (x.shape[0] + 0.5)),
    "ceil": lambda x: x.new_zeros(math.ceil(x.shape[0] / 2)),
    "floor": lambda x: x.new_zeros(math.floor(x.shape[0] * 0.75) + 1),
    "round": lambda x: x.new_zeros(round(x.shape[0] * 0.75) + 1),
    "results": lambda x: (x.shape[0], x.shape[0] // 3, x.shape[0] * 2.5, x.shape[0] > 5, x.numel()),
    "floored": lambda x: (
        *(x // x.shape[0], torch.div(x, x.shape[0], rounding_mode="floor"), x.shape[0] // (x.abs() + 1)),
        *(x.long() // x.shape[0], x.shape[0] // (x.long().abs() + 1)),
    ),
    "remainder": lambda x: F.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)),
    "padding": lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4)),
    "negative": lambda x: (
        *((x.shape[0] - 9) % 4, (x.shape[0] - 9) // 4, x.shape[0] % -3, x.shape[0] // -3),
        *((5 - x.shape[0]) % (x.shape[0] - 20), -x.shape[0] % 4),
    ),
    "rest": lambda x: F.pad(x, (0, 0, 0, 16 - x.shape[0])),
    "choice": lambda x: torch.sym_ite(x.shape[0] > 7, x.shape[0], 3 * x.shape[0]) * x,
}

_OPERATORS: dict[str, Callable[[Tensor], Any]] = {
    "adaptive_pool": lambda x: (F.adaptive_avg_pool2d(x[None], (3, 3)), F.adaptive_avg_pool1d(x.T[None], 4)),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(
        x.repeat_interleave(2, 0)[None], (2, 4), return_indices=True
    ),
    "arange": lambda x: (torch.arange(1, x.shape[0] + 1), torch.arange(x.shape[0], dtype=torch.float32)),
    "argmax": lambda x: (x.argmax(0), x.argmin(), x.amax(0), x.max(0), x.max()),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "bool": lambda x: ((x > 0).any(0), (x > 0).all(), (x > 0).sum(0)),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    "cat": lambda x: (torch.cat([x, x[:1], x]), torch.stack([x, x], 1)),
    "cdist": lambda x: torch.cdist(x, x),
    "circular": lambda x: F.pad(x[None], (1, 1), mode="circular"),
    "cosine": lambda x: F.cosine_similarity(x[:, None], x[None], dim=-1),
    "cumulative": lambda x: (x.cumprod(0), x.cummax(0), x.logcumsumexp(0), x.cumsum(0)),
    "diagonal": lambda x: (torch.diag(x[:, 0]), torch.diagonal(x[:, None] * x[None, :], 0, 0, 1)),
    "diff": lambda x: (x.diff(dim=0), torch.trapezoid(x, dim=0)),
    "einsum": lambda x: (torch.einsum("ij,kj->ik", x, x), torch.einsum("bij,bkj->bik", x[None], x[None])),
    "eye": lambda x: torch.eye(x.shape[0]),
    "flip": lambda x: (x.flip(0), x.rot90(), x.roll(1, 0), x.roll(-3, 0), x.roll(2, 1)),
    "gather": lambda x: x.gather(0, torch.zeros(x.shape[0], 8, dtype=torch.int64)),
    "grid_sample": lambda x: F.grid_sample(x[None, None], torch.zeros(1, 3, 3, 2), align_corners=False),
    "group_norm": lambda x: (F.group_norm(x.T[None], 2), F.instance_norm(x.T[None])),
    "histc": lambda x: torch.histc(x, 4, -1.0, 1.0),
    "index": lambda x: (x[torch.arange(x.shape[0] - 1, -1, -1)], x.index_select(0, torch.tensor([0, 1]))),
    "interpolate": lambda x: (
        F.interpolate(x[None, None], scale_factor=2.0),
        F.interpolate(x[None, None], scale_factor=1.5, mode="bilinear"),
        F.interpolate(x[None, None], size=(7, 7), mode="bilinear"),
    ),
    "interpolate_cubic": lambda x: (
        F.interpolate(x[None, None], size=(7, 7), mode="bicubic", align_corners=True),
        F.interpolate(x[None, None], size=(x.shape[0] * 2, 8), mode="bicubic"),
    ),
    "interpolate_rows": lambda x: (
        F.interpolate(x.T[None], scale_factor=2, mode="linear"),
        F.interpolate(x.T[None], scale_factor=2, mode="nearest"),
    ),
    "layer_norm": lambda x: (F.layer_norm(x, [8]), F.rms_norm(x, [8])),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.int64)),
    "matmul": lambda x: (x @ x.T, x.T @ x, x @ x[0], x[:, 0] @ x, torch.bmm(x[None], x.T[None])),
    "meshgrid": lambda x: torch.meshgrid(torch.arange(x.shape[0]), torch.arange(3), indexing="ij"),
    "norm": lambda x: (x.norm(), x.norm(dim=0), F.normalize(x, dim=0)),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 8),
    "outer": lambda x: torch.outer(x[:, 0], x[:, 0]),
    "pad": lambda x: [F.pad(x[None], (1, 1), mode=mode) for mode in ("reflect", "replicate", "constant")],
    "quantile": lambda x: (x.quantile(0.5, 0), x.median(0).values),
    "repeat": lambda x: (x.repeat(2, 3), x.repeat_interleave(3, 0), x.tile(2)),
    "scatter": lambda x: torch.zeros_like(x).scatter(0, torch.zeros(1, 8, dtype=torch.int64), 1.0),
    "scatter_reduce": lambda x: torch.zeros(4, 8).scatter_reduce(
        0, torch.zeros(x.shape[0], 8, dtype=torch.int64), x, "amax"
    ),
    "search": lambda x: torch.searchsorted(x[:, 0].sort()[0], x[:, 1]),
    "select_scatter": lambda x: (x.select_scatter(x[0] * 0, 0, -1), x.slice_scatter(x[:1] * 0, 0, 1, 2)),
    "slices": lambda x: (x[-1:], x[:-1], x[-2], x[::2], x[1:]),
    "softmax": lambda x: (x.softmax(0), x.log_softmax(0), x.logsumexp(0)),
    "sort": lambda x: (x.sort(0), x.argsort(0, descending=True), x.topk(2, 0)),
    "split": lambda x: (x.chunk(2, 1), x.split([3, 5], 1), x.tensor_split(2, 1), x.unbind(1)),
    "triangle": lambda x: (x.tril(), x.triu(1), torch.full((x.shape[0],) * 2, -math.inf).triu(1)),
    "unfold": lambda x: (x.unfold(0, 2, 1), F.unfold(x[None, None], (2, 2))),
    "variance": lambda x: (x.var(0), x.std(0), torch.var_mean(x, 0)),
    "views": lambda x: (x.view(-1), x.view(x.shape[0], 2, -1), x.reshape(-1, 4), x.unflatten(1, (2, 4))),
    "written": _written,
}


def _numbered(x: Tensor, count: Tensor) -> tuple[Any, ...]:
    """A scalar in a tensor decides sizes."""
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= 7)
    return x[:n], torch.zeros(n, 2), x.narrow(0, n, 1), x * n, n + 1


def _scaled(x: Tensor, factor: Tensor) -> Tensor:
    return x * factor.item()


def _case(function: Callable[[Tensor], Any]) -> Case:
    calls = [(noise(size, 8, seed=size),) for size in (8, 4, 16, 7)]
    return Case(lambda: Function(function), calls, dynamic_shapes=(({0: _N},),))


SIZES: dict[str, Case] = {
    **{name: _case(function) for name, function in (_ARITHMETIC | _OPERATORS).items()},
    "found": Case(
        lambda: Function(
            lambda x: (x.nonzero(), x[x > 0] * 2, x[x > 0].sum(), x[(x[:, 0] > 0).nonzero().squeeze(1)])
        ),
        [(noise(4, 3, seed=seed).round(),) for seed in range(3)]
        + [(torch.ones(4, 3),), (torch.zeros(4, 3),)],
    ),
    "derived": Case(
        lambda: Function(lambda x, y: (x[1:] + y, x.view(-1), y.view(-1))),
        [(noise(n + 1, 3), noise(n, 3)) for n in (4, 2, 8)],
        dynamic_shapes=(({0: _HALF + 1}, {0: _HALF}),),
    ),
    "multiple": Case(
        lambda: Function(lambda x: x.view(-1, 3, 4).sum(1)),
        [(noise(3 * n, 4),) for n in (4, 2, 8)],
        dynamic_shapes=(({0: 3 * _HALF},),),
    ),
    "number_of_a_tensor": Case(
        lambda: Function(_numbered), [(noise(8, 3), torch.tensor(n)) for n in (3, 7, 0)]
    ),
    "factor_of_a_tensor": Case(
        lambda: Function(_scaled), [(noise(8, 3), torch.tensor(n)) for n in (3.5, -1.0)]
    ),
    "convolution_3d": Case(
        lambda: nn.Conv3d(2, 3, 3, stride=(2, 1, 1), padding=1),
        [(noise(1, 2, n, 5, 5),) for n in (8, 4, 16, 7)],
        dynamic_shapes=({2: _N},),
    ),
    "pyramid": Case(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, 2, 1),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(4, 4, 3, padding="same"),
            nn.Upsample(scale_factor=2),
            nn.AdaptiveAvgPool2d(1),
        ),
        [(noise(1, 3, n, n + 5),) for n in (32, 16, 64)],
        dynamic_shapes=({2: Dim("rows", min=16, max=64), 3: Dim("columns", min=16, max=80)},),
    ),
}
