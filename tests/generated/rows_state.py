# SPDX-License-Identifier: Apache-2.0
"""Rows that create tensors, write to them, or choose and repeat computations."""

from __future__ import annotations

from typing import Final

CREATION: Final = (
    "torch.arange({int:r(0, 7)})",
    "torch.arange({t@1+}.shape[0])",
    "torch.arange({t@1+}.shape[-1], dtype={dtype}) * 0.5",
    "torch.arange({int:r(-3, 2)}, {int2:r(2, 7)}, {one:1|2|0.5})",
    "torch.linspace(-1, {one:2|0.7|-3.25}, {int:r(0, 6)})",
    "torch.logspace(-1, 1, {int:r(1, 5)})",
    "torch.zeros({int:r(0, 4)}, 3, dtype={dtype})",
    "torch.ones({int:r(0, 4)}, dtype={dtype})",
    "torch.full(({int:r(1, 4)}, 2), {num})",
    "torch.full((), {num}, dtype={dtype})",
    "torch.eye({int:r(1, 5)}, {int2:r(1, 5)})",
    "torch.tensor([{num}, {num2}, {num3}])",
    "torch.tensor({num})",
    "torch.scalar_tensor({num})",
    "torch.zeros_like({t})",
    "torch.ones_like({t}, dtype={dtype})",
    "torch.full_like({n}, {num})",
    "torch.ones({t}.shape)",
    "{t}.new_zeros({int:r(0, 4)}, 2)",
    "{t}.new_ones({t1}.shape)",
    "{t}.new_tensor([1, 2])",
    "torch.tril_indices({int:r(1, 4)}, 3)",
    "torch.triu_indices(3, {int:r(1, 4)})",
    "torch.hann_window({int:r(1, 7)})",
    "torch.hamming_window({int:r(1, 7)}, periodic={keep})",
    "torch.blackman_window({int:r(1, 7)})",
    "torch.bartlett_window({int:r(1, 7)})",
    "torch.empty({int:r(0, 4)}).fill_({num})",
    "torch.empty_like({t}).zero_()",
    "torch.finfo(torch.float32).eps + {f}",
    "torch.as_tensor({num}) * {n}",
)

_WITH_TENSOR: Final = "add sub mul div copy fmod remainder floor_divide pow"
_WITH_NUMBER: Final = "add sub mul div fill clamp_min pow"
_UNARY: Final = "relu sigmoid tanh neg abs zero floor exp square sin reciprocal"

# `{w}` is a value that may be written to: a result, a view of one, or state.
IN_PLACE: Final = (
    *(f"{{w}}.{name}_({{n~}})" for name in _WITH_TENSOR.split()),
    *(f"{{w}}.{name}_({{num}})" for name in _WITH_NUMBER.split()),
    *(f"{{w}}.{name}_()" for name in _UNARY.split()),
    "{w} += {n~}",
    "{w} *= {num}",
    "{w} -= {n~}",
    "{w} /= {num}",
    "{w}[...] = {num}",
    "{w@1+}[0] = {num}",
    "{w@1+}[0] = {n}",
    "{w@1+}[-1:] = {n~}",
    "{w@1+}[..., 0] += {num}",
    "{w@1+}[{int:r(0, 2)}:{int2:r(1, 4)}] *= {num}",
    "{w@2+}[:, 0] = {n}",
    "{w@2+}[:, 1:] = {num}",
    "{w@2+}.select({dim}, 0).fill_({num})",
    "{w@1+}.narrow({dim}, 0, 1).add_({num})",
    "{w@2+}.transpose(0, 1).mul_({n~})",
    "{w@2+}.mT.add_({num})",
    "{w@2}.t()[0].sub_({num})",
    "{w@2+}.diagonal().fill_({num})",
    "{w@2}.fill_diagonal_({num})",
    "{w@1+}.view(-1)[::2].add_({num})",
    "{w@1+}.unsqueeze(0).squeeze().mul_({num})",
    "{w}.masked_fill_({b~}, {num})",
    "{w}.masked_fill_({w} > {num}, {num2})",
    "{w@1+}[{w} > {num}] = {num2}",
    "{w@1+}[{I:x.shape[0];(2,)}] = {num}",
    "{w@1+}[{I:x.shape[0];(1,)}] += {num}",
    "{w@2+}[:, {I:x.shape[1];(2,)}] = {num}",
    "{w@1+}.index_fill_({dim}, {I:x.shape[dim];(2,)}, {num})",
    "{w@1+}.index_add_(0, {I:x.shape[0];(x.shape[0],)}, {w}.clone())",
    "{w@1+}.index_copy_(0, {I:x.shape[0];(1,)}, {w}[:1].clone())",
    "{w@1+}.index_put_(({I:x.shape[0];(2,)},), torch.tensor({num}, dtype={w}.dtype), accumulate=True)",
    "{w@1+}.scatter_({dim}, {I:x.shape[dim];tuple(x.shape)}, {num})",
    "{w@1+}.scatter_add_({dim}, {I:x.shape[dim];tuple(x.shape)}, {w}.clone())",
    "{w}.clamp_({num}, {num2})",
    "{w}.addcmul_({f~}, {f1~}, value={num})",
    "{w}.lerp_({f~}, {num})",
    "{w@2}.addmm_({W:(x.shape[0], 2)}, {W1:(2, x.shape[1])})",
    "{w@3}.baddbmm_({W:(x.shape[0], x.shape[1], 2)}, {W1:(x.shape[0], 2, x.shape[2])})",
    "{w@1+}.cumsum_({dim})",
    "{w@2+}.tril_()",
    "{w@1+}.copy_({w}.flip(0))",
    "{w@1+}[0].copy_({w}[-1])",
    "{w@1+}.unbind()[0].add_({num})",
    "{w@1+}.split(1)[-1].mul_({num})",
    "{w@2+}.chunk(2, -1)[0].zero_()",
    "{w}.nan_to_num_()",
    "F.relu({w}, inplace=True)",
    "F.leaky_relu_({w}, 0.1)",
    "F.hardtanh({w}, inplace=True)",
    "F.silu({w}, inplace=True)",
    "torch.add({w}, {w}, out={w})",
)

CONTROL_FLOW: Final = (
    "cond({n}.sum() > {num}, lambda a: {body:a}, lambda a: {body2:a}, ({f1},))",
    "cond({b}.any(), lambda a, b: {body:a}, lambda a, b: {body2:b}, ({f}, {f1=}))",
    "cond({b}.all(), lambda a, b: a + b, lambda a, b: {body:a - b}, ({f}, {f1=}))",
    "cond({n}.sum() > {num}, lambda a: (a + 1, {body:a}), lambda a: (a * 2, {body2:a}), "
    "({f1},))[{int:r(0, 2)}]",
    "cond({n}.max() > 0, lambda a: cond(a.sum() > 0, lambda c: c * 2, lambda c: {body:c}, (a,)), "
    "lambda a: a - 1, ({f1},))",
    "cond({t@1+}.shape[0] > {int:r(0, 5)}, lambda a: {body:a}, lambda a: {body2:a}, ({f1},))",
    "while_loop(lambda i, a: i < {int:r(0, 5)}, lambda i, a: (i + 1, {body:a}), (torch.zeros((), "
    "dtype=torch.int64), {f}))[1]",
    "while_loop(lambda i, a: (i < 9) & (a.abs().sum() < {int:r(1, 30)}), lambda i, a: "
    "(i + 1, a * 1.5 + 0.25), (torch.zeros((), dtype=torch.int64), {f@1+}))[{int2:r(0, 2)}]",
    "while_loop(lambda i, a, b: i < {int:r(1, 4)}, lambda i, a, b: (i + 1, b + 1, a * 0.5), "
    "(torch.zeros((), dtype=torch.int32), {f}, {f1=}))[{int2:r(1, 3)}]",
    "map(lambda a: {body:a}, {f@1+})",
    "map(lambda a, b: a + b, {f@2+}, {f}[0])",
    "map(lambda a: a.sum(0), {f@2+})",
    "scan(lambda c, a: (c + a, c * a), {f@2+}[0] * 0, {f})[{int:r(0, 2)}]",
    "scan(lambda c, a: (c * 0.5 + a, {body:c}), {f@2+}[0] * 0, {f})[{int:r(0, 2)}]",
)
