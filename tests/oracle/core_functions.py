# SPDX-License-Identifier: Apache-2.0
"""Functions that each use many operators of one kind."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

aten = torch.ops.aten


def in_place(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    view = a[0]
    a.mul_(y)  # seen through the view
    b = torch.sigmoid(x)
    b.add_(y).clamp_(0, 1)
    c = torch.zeros(3, 4)
    c[1:] = 2
    c[:, 0].add_(1)
    d = y.clone()
    d.masked_fill_(d > 0, -1)
    half = torch.tanh(x.half())
    half.add_(y)  # a write does not promote
    return view, a, b, c, d, half


def everything_moves(x: Tensor) -> tuple[Any, ...]:
    return (
        *(x.flip(1), x.roll(1, 2), x.repeat(2, 1, 1), x.repeat_interleave(2, 1), x.tile(2), x.movedim(0, 2)),
        *(x.narrow(1, 1, 2), x.unfold(2, 2, 1), x.diagonal(dim1=1, dim2=2), x.swapaxes(0, 1), x.flatten(1)),
        *(x.unflatten(2, (2, 2)), torch.cat([x, x], 1), torch.stack([x, x], 1), x.chunk(2, 2), x.split(2, 1)),
        *(
            x.split([1, 2], 1),
            x.unbind(1),
            x[None].expand(2, 2, 3, 4),
            x[:, -1],
            x[..., ::2],
            x[:, 1:],
            x[None],
        ),
        *(x[:1].squeeze(), x.mT, x.tril(), x.triu(1), torch.tensor_split(x, 2, 1), torch.hstack([x, x])),
        *(torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"), x.permute(2, 0, 1).reshape(4, 6)),
    )


def index(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    positions = at[None, :, None].expand(2, 3, 4)
    return (
        *(x[:, at], x[:, at, at], x[at.clamp(max=1), :, at], torch.gather(x, 1, positions)),
        *(x.index_select(1, at), F.embedding(at, x[0]), torch.take(x, at), x.take_along_dim(positions, 1)),
        *(F.one_hot(at, 4), torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, -1.0)),
    )


def scatter(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    row = torch.tensor([0])
    return (
        *(x.scatter(1, at, 0.5), x.scatter(1, at, x * 2), x.scatter_add(1, at, x)),
        *(x.index_put((row,), torch.ones(3, 4)), x.index_add(1, row, torch.ones(2, 1, 4))),
        *(x.index_fill(1, row, 3.0), x.slice_scatter(torch.zeros(2, 3, 2), 2, 0, 2)),
        *(x.select_scatter(torch.zeros(3, 4), 0, 1), x.masked_scatter(x > 0, x)),
    )


def reduce(x: Tensor) -> tuple[Any, ...]:
    return (
        *(x.sum(), x.sum(1), x.mean(), x.mean((0, 2), keepdim=True), x.amax(1), x.amin((0, 1)), x.argmax(1)),
        *(x.argmin(), x.prod(), x.prod(1), x.var(1), x.var(1, unbiased=False), x.std(), x.max(), x.min(1)),
        *(x.any(), (x > 0).all(1), x.cumsum(1), x.norm(), torch.logsumexp(x, 1), x.aminmax(dim=1), x.topk(2)),
        *(torch.linalg.vector_norm(x, ord=p, dim=1) for p in (1, 2, 3, float("inf"))),
    )


def multiply(x: Tensor) -> tuple[Tensor, ...]:
    a, v = x[0], x[0, 0]
    return (
        *(x @ x.mT, a @ a.T, v @ v, x @ v, v @ a.T, x[None] @ x.mT, torch.bmm(x, x.mT), torch.outer(v, v)),
        *(torch.einsum("bij,bkj->bik", x, x), torch.baddbmm(torch.ones(2, 3, 3), x, x.mT, beta=0.5)),
        *(torch.addmm(torch.ones(3, 3), a, a.T, beta=2, alpha=0.5), torch.addmv(torch.ones(3), a, v)),
        *(
            torch.kron(a, a),
            torch.dot(v, v),
            torch.linalg.norm(a),
            torch.cdist(x, x),
            F.cosine_similarity(x, x + 1),
        ),
    )


def mixed_scalars(x: Tensor) -> tuple[Tensor, ...]:
    i = x.int()
    return (
        2 - x,
        x - 2,
        2 / x,
        x / 2,
        2 ** x.abs(),
        x**2,
        x * True,
        -x,
        1 - i,
        i * 2.5,
        i + 0.5,
        i - 0.5,
        0.5 - i,
        i**2,
        i == 1.5,
        i > 0.5,
        i.bool() + 1,
        i / 2,
        i // 2,
        i % 3,
        7 - i,
    )


def blend(x: Tensor) -> tuple[Tensor, ...]:
    return (
        *(torch.lerp(x, x * 2, 0.3), torch.addcmul(x, x, x, value=0.5), torch.addcdiv(x, x, x.abs() + 1)),
        *(x.clamp(-0.5), x.clamp(max=0.5), x.clamp(x * 0, x * 0 + 1), torch.nan_to_num(x / 0), x.frac()),
        *(
            x.square(),
            torch.isfinite(x),
            x.diff(),
            x.xlogy(x.abs()),
            torch.logaddexp(x, x),
            torch.heaviside(x, x),
        ),
        *(torch.div(x * 9, 2.5, rounding_mode="floor"), torch.div(x * 9, x.abs(), rounding_mode="trunc")),
    )


def normalize(x: Tensor) -> tuple[Tensor, ...]:
    weight = x[0, :, 0] / 10
    return (
        *(
            F.layer_norm(x, (40,)),
            F.layer_norm(x, (4, 40), x[0] / 10, x[1] / 10),
            F.group_norm(x, 2, weight, weight),
        ),
        *(F.instance_norm(x, weight=weight), F.batch_norm(x, None, None, training=True)),
        *(x.var(1), x.std(), *torch.var_mean(x, 2), F.rms_norm(x, (40,))),
        *torch.native_layer_norm(x, (40,), None, None, 1e-5),
        *torch.native_group_norm(x, None, None, 3, 4, 40, 2, 1e-5),
        *aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5),
    )


def of_dtype(x: Tensor) -> tuple[Tensor, ...]:
    return (
        *(
            x + x,
            x * 2,
            x.relu(),
            x.sum(1),
            x.mean(1),
            x.softmax(-1),
            F.gelu(x),
            F.layer_norm(x, (4,)),
            x @ x.mT,
        ),
        *(x.exp(), x > 0, x.amax(1), torch.cat([x, x]), F.silu(x), x.float(), torch.where(x > 0, x, 2.0)),
    )


def integers(long: Tensor, int_: Tensor, byte: Tensor) -> tuple[Tensor, ...]:
    return (
        *(
            long + int_,
            int_ * 2,
            byte & byte,
            ~byte,
            byte | 1,
            long.to(torch.uint8) + byte,
            long.sum(),
            byte.sum(),
        ),
        *(int_.to(torch.int16) * 3, long // 3, int_ % 3, byte.float() / 2, long.bool(), int_.to(torch.int8)),
        *(
            -int_,
            long.max(),
            torch.where(byte > 0, long, int_),
            long > int_,
            byte == 2,
            long.to(torch.float64),
        ),
    )


def booleans(p: Tensor) -> tuple[Tensor, ...]:
    return (
        p & p,
        ~p,
        p ^ True,
        p | ~p,
        p.sum(),
        p.float(),
        p.any(),
        p.all(),
        p.int() * 2,
        torch.where(p, 1.0, 2.0),
    )


def make(x: Tensor) -> tuple[Tensor, ...]:
    return (
        *(torch.zeros(2, 3), torch.ones(2, dtype=torch.int64), torch.full((2,), True), torch.arange(0, 5, 2)),
        *(
            torch.arange(3.0),
            torch.linspace(0, 1, 5),
            torch.eye(3),
            torch.zeros_like(x),
            torch.tensor([1, 2]),
        ),
        *(torch.tensor(3.0), torch.empty(3).fill_(2), x.new_empty(2).zero_(), torch.full_like(x, 2), x + 1),
    )


def attend(q: Tensor, k: Tensor, bool_mask: Tensor, float_mask: Tensor) -> tuple[Tensor, ...]:
    attend = F.scaled_dot_product_attention
    return (
        *(attend(q, k, k), attend(q, q, q, is_causal=True), attend(q, k, k, attn_mask=bool_mask)),
        *(attend(q, k, k, attn_mask=float_mask), attend(q, k, k, scale=0.3)),
        *(
            attend(q[0], k[0], k[0]),
            attend(q[0, 0], k[0, 0], k[0, 0]),
            attend(q, k[:, :1], k[:, :1], enable_gqa=True),
        ),
    )
