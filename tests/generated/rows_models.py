# SPDX-License-Identifier: Apache-2.0
"""Rows of expressions in models: recurrent layers, attention by hand, masks, transforms of functions."""

from __future__ import annotations

from typing import Final

# Infinity times zero is NaN, or is not computed.
_FINITE: Final = ".nan_to_num(0, 9, -9)"
_LAYERS: Final = "[{W1:(%d, x.shape[2])}, {W2:(%d, 2)}, {W3:(%d,)}, {W4:(%d,)}]"

RECURRENT: Final = (
    "torch.rnn_tanh({f@3}, {W:(1, x.shape[1], 2)}, "
    + _LAYERS % (2, 2, 2, 2)
    + ", True, 1, 0.0, False, False, False)[{int:r(0, 2)}]",
    "torch.gru({f@3}, {W:(1, x.shape[0], 2)}, "
    + _LAYERS % (6, 6, 6, 6)
    + ", True, 1, 0.0, False, False, True)[{int:r(0, 2)}]",
    "torch.lstm({f@3}, ({W:(1, x.shape[1], 2)}, {W5:(1, x.shape[1], 2)}), "
    + _LAYERS % (8, 8, 8, 8)
    + ", True, 1, 0.0, False, False, False)[{int:r(0, 3)}]",
    "torch.rnn_tanh_cell({f@2}, {W:(x.shape[0], 2)}, {W1:(2, x.shape[1])}, {W2:(2, 2)})",
    "torch.gru_cell({f@2}, {W:(x.shape[0], 2)}, {W1:(6, x.shape[1])}, {W2:(6, 2)}, {W3:(6,)}, {W4:(6,)})",
    "torch.lstm_cell({f@2}, ({W:(x.shape[0], 2)}, {W1:(x.shape[0], 2)}), {W2:(8, x.shape[1])}, {W3:(8, 2)})"
    "[{int:r(0, 2)}]",
)

ATTENTION: Final = (
    f"F.scaled_dot_product_attention({{f@3+}}{_FINITE}, {{W:(*x.shape[:-2], r(1, 6), x.shape[-1])}}, {{W}})",
    f"F.scaled_dot_product_attention({{f@4}}{_FINITE}, {{f}}{_FINITE}, {{f}}{_FINITE}, attn_mask="
    "torch.arange({f}.shape[-2])[:, None] >= torch.arange({f}.shape[-2]))",
    "F.multi_head_attention_forward({f@3}.repeat(1, 1, 2), {f}.repeat(1, 1, 2), {f}.repeat(1, 1, 2), "
    "2 * {f}.shape[-1], 2, {W:(6 * x.shape[-1], 2 * x.shape[-1])}, {W1:(6 * x.shape[-1],)}, None, None, "
    "False, 0.0, {W2:(2 * x.shape[-1], 2 * x.shape[-1])}, {W3:(2 * x.shape[-1],)}, "
    "training=False)[{int:r(0, 2)}]",
    f"(({{f@3+}}{_FINITE} @ {{f}}{_FINITE}.mT).masked_fill(torch.ones({{f}}.shape[-2], {{f}}.shape[-2])"
    f".triu(1) > 0, -math.inf).softmax(-1) @ {{f}}{_FINITE})",
    "torch.cat([-{f@1+}[..., {f}.shape[-1] // 2:], {f}[..., :{f}.shape[-1] // 2]], -1)",
    "torch.view_as_real(torch.view_as_complex({m@1+}.repeat_interleave(2, -1).reshape(*{m}.shape, 2)) * "
    "torch.polar(torch.ones({m}.shape[-1], dtype={m}.dtype), torch.arange({m}.shape[-1], dtype={m}.dtype)))",
    "torch.cat([({n@1}[:, None] * torch.exp(torch.arange(3) * -0.5)).sin(), "
    "({n}[:, None] * torch.exp(torch.arange(3) * -0.5)).cos()], -1)",
    "{f@2+}.repeat_interleave(2, -2).unflatten(-2, (-1, 2)).transpose(-3, -2).flatten(-2)",
    "{f@4}.repeat(1, 2, 2, 1).view({f}.shape[0], {f}.shape[1], 2, {f}.shape[2], 2, -1)"
    ".permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, {f}.shape[3])",
)

EXPRESSIONS: Final = (
    "({f@1+} - {f}.mean(-1, keepdim=True)) / ({f}.var(-1, keepdim=True, unbiased=False) + 0.01).sqrt()",
    "({f@1+} * torch.rsqrt({f}.pow(2).mean(-1, keepdim=True) + 1e-5) * {W:(x.shape[-1],)})",
    "F.silu({f@1+}.chunk(2, -1)[0]) * {f}.chunk(2, -1)[-1][..., :1]",
    "torch.zeros_like({f@2}).scatter(-1, {f}.topk(1, -1).indices, {f}.topk(1, -1).values.softmax(-1))",
    "F.one_hot({f@1+}.argmax(-1), {int:x.shape[-1]}).to({f}.dtype) * {f}",
    "torch.arange({int:r(2, 7)})[None] < {I:7;(r(1, 4),)}[:, None]",
    "{n@1+}.flip(0).cumsum(0).flip(0)",
    "sum({n@1+}.unbind(0))",
    "torch.stack([each * i for i, each in enumerate({n@1+}.split(1))])",
    "functools.reduce(torch.maximum, {n@1+}.unbind(-1))",
    "[{n} + i for i in range(3)][{int:r(-1, 3)}]",
    "dict(a={n}, b={n1})['b'] * 2",
    "F.linear({f@1+}, torch._weight_norm({W:(3, x.shape[-1])}, {W1:(3, 1)}, 0))",
    "F.linear({f@1+}, {W:(3, x.shape[-1])} / {W}.norm())",
    "F.conv2d({f@4}, {W:(2, x.shape[1], 2, 2)} - {W}.mean((1, 2, 3), keepdim=True))",
    "F.conv1d(F.pad({f@3}, (2, 0)), {W:(r(1, 3), x.shape[1], 3)})",
    "torch.stft({m@1-2}.nan_to_num(0, 9, -9).repeat_interleave(4, -1), 4, 2, window=torch.hann_window(4, "
    "dtype={m}.dtype), return_complex=True).abs()",
    "torch.fft.irfft2(torch.fft.rfft2({m@2+}.nan_to_num(0, 9, -9)) * 0.5)",
    "F.grid_sample({m@5}.nan_to_num(0, 9, -9), {W:(x.shape[0], 2, 1, 2, 3)}, align_corners={keep})",
    "F.grid_sample({m@4}.nan_to_num(0, 9, -9), {W:(x.shape[0], 2, 2, 2)}, mode='bicubic', "
    "padding_mode='reflection', align_corners={keep})",
    "F.multi_margin_loss({f@2}, {I:x.shape[1];(x.shape[0],)})",
    "F.multilabel_soft_margin_loss({f@2}, {B:tuple(x.shape)}.to({f}.dtype))",
    "F.max_unpool2d(*F.max_pool2d({f@4}, 2, return_indices=True), 2)",
    "torch.special.log_softmax({f}, {dim})",
    "torch.special.logsumexp({f}, {dim})",
    "torch.special.logit({f}.sigmoid())",
    "torch.special.xlogy({f}, {f1~}.abs())",
    "torch.special.zeta({f}.abs() + 2, 1.5)",
    "torch.sum({t} == {t1~})",
    "({n@2+} - {n}.amin((-2, -1), True)) / ({n}.amax((-2, -1), True) - {n}.amin((-2, -1), True) + 1)",
    "torch.unravel_index({n}.argmax(), {n}.shape)[0]",
    "torch.dsplit({t@3+}, {int:x.shape[2]})[-1]",
    "torch.tensor_split({t@1+}, [{int:r(0, 3)}, {int2:r(1, 5)}], {dim})[1]",
    "{t@1+}.narrow_copy({dim}, 0, 1)",
    "torch.scatter({n@1+}, {dim}, {I:x.shape[dim];tuple(x.shape)}, {n1=}, reduce={one:'add'|'multiply'})",
    "torch.cumsum({n} > {num}, {dim})",
    "torch.cumsum({b@1+}, -1).masked_fill(~{b}, 0)",
    "torch.addcmul({n}, {n1~}, {n2~})",
    "torch.ops.aten.silu({f})",
    "{f}.mul({num}).add({num2}).clamp_(-3, 3)",
    "torch.min(torch.stack([{n}, {n1=}]), 0).values",
    "torch.sort({n@1+}, stable=True).indices.argsort()",
    "{n}.to(torch.float32).clamp(-1e9, 1e9).round().int().float()",
    "torch.where({n} > {num}, {n}, torch.tensor({num2}))",
    "torch.full({n}.shape, {num}) + {n}",
    "(torch.full_like({n}, {num}).tril() if {n}.dim() > 1 else {n})",
    "{n}.new_tensor({num}) * {n}",
    "{n} * torch.tensor([{num}, {num2}])[{I:2;()}]",
    "({f@1+}.mean(0) if {f}.requires_grad else {f}.sum(0))",
)

# Functions that run functions.
HIGHER_ORDER: Final = (
    "torch.vmap(lambda a: {body:a} * 2)({f@2+})",
    "torch.vmap(lambda a: a.sum() + 1)({n@1+})",
    "torch.vmap(lambda a, b: a @ b)({f@3}, {W:(x.shape[0], x.shape[2], 2)})",
    "torch.vmap(lambda a, b: a * b, in_dims=(0, None))({f@2+}, {f}[0])",
    "checkpoint(lambda a: {body:a}, {f}, use_reentrant=False)",
    "run(torch.no_grad(), lambda a={f}: {body:a})",
    "run(torch.enable_grad(), lambda: {f} * {num})",
    "run(torch.autocast('cpu', dtype=torch.bfloat16), lambda: {f@2} @ {W:(x.shape[1], 3)})",
    "run(torch.autocast('cpu', dtype=torch.bfloat16), "
    "lambda: F.linear({f@1+}, {W:(2, x.shape[-1])}).softmax(-1))",
    "run(torch.autocast('cpu', enabled=False), lambda: {f}.float() * 2)",
    "torch.func.functional_call(torch.nn.Linear(2, 3, bias=False), {'weight': {W:(3, 2)}}, "
    "{f@1+}.mean(-1, True).expand(*{f}.shape[:-1], 2))",
    "(lambda a, *b, k=1: a * k + sum(b))({n}, 1, 2, k={num})",
    "functools.partial(torch.add, {n})({num})",
)

# Sizes of results that depend on values.
DATA_DEPENDENT: Final = (
    "{n@1+}[{n} > {num}].sum()",
    "torch.masked_select({n}, {n} > {num}).sum()",
    "torch.nonzero({n@1+} > {num}).sum(0)",
    "torch.where({n@1+} > {num})[0].sum()",
    "torch.cat([{n@1}, {n}[{n} > {num}]]).amax()",
    "{n@2+}[{B:(x.shape[0],)}].sum(0)",
    "torch.unique({i}).sum()",
    "torch.bincount({I:5;(3,)})[:2]",
    "{n} * {n1}.sum().item()",
    "{n} + {n1}.max().item()",
    "torch.full((2,), {n}.sum().item())",
    "torch.zeros({I:4;()}.item()).sum() + {n}",
    "{n@1+}[{I:x.shape[0];()}.item()]",
    "{n@1+}[:{I:x.shape[0];()}.item()].sum(0)",
)

MODELS: Final = (*RECURRENT, *ATTENTION, *EXPRESSIONS, *HIGHER_ORDER)
