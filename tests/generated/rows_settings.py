# SPDX-License-Identifier: Apache-2.0
"""Rows whose settings are computed from sizes, which are dynamic in many programs."""

from __future__ import annotations

from typing import Final

_HALF: Final = "{f}.shape[-1] // 2"
_PARITY: Final = "({f}.shape[-1] % 2 + 1)"

SETTINGS: Final = (
    # layers
    f"F.conv1d({{f@3}}, {{W:(2, x.shape[1], 2)}}, padding={_HALF})",
    f"F.conv1d({{f@3}}, {{W:(2, x.shape[1], 2)}}, stride={_PARITY})",
    f"F.conv2d({{f@4}}, {{W:(2, x.shape[1], 3, 2)}}, padding={_HALF} + 1)",
    f"F.conv2d({{f@4}}, {{W:(2, x.shape[1], 2, 2)}}, stride={_PARITY})",
    f"F.conv2d({{f@4}}, {{W:(2, x.shape[1], 2, 2)}}, dilation={_PARITY}, padding=2)",
    f"F.conv_transpose2d({{f@4}}, {{W:(x.shape[1], 2, 2, 2)}}, stride={_PARITY})",
    f"F.conv_transpose2d({{f@4}}, {{W:(x.shape[1], 2, 2, 2)}}, dilation={_PARITY})",
    f"F.conv_transpose1d({{f@3}}, {{W:(x.shape[1], 2, 3)}}, stride={_PARITY}, padding={_PARITY} - 1)",
    f"F.max_pool2d({{f@3-4}}, 2, stride={_PARITY})",
    f"F.max_pool2d({{f@3-4}}, {_PARITY} + 1, padding=1)",
    f"F.avg_pool2d({{f@3-4}}, {_PARITY}, ceil_mode={{keep}})",
    f"F.avg_pool1d({{f@2-3}}, {_HALF} + 1)",
    f"F.adaptive_avg_pool1d({{f@2-3}}, {_HALF} + 1)",
    f"F.adaptive_avg_pool2d({{f@3-4}}, ({_HALF} + 1, 2))",
    f"F.adaptive_max_pool2d({{f@3-4}}, ({_HALF} + 1, 2))",
    f"F.interpolate({{f@4}}.nan_to_num(0, 9, -9), size=({_HALF} + 1, 3), mode={{one:'nearest'|'bilinear'}})",
    "F.interpolate({f@4}.nan_to_num(0, 9, -9), size={f}.shape[-1] * 2, mode={one:'nearest'|'bicubic'})",
    f"F.pad({{f@1+}}, ({_HALF}, 1), value={{num}})",
    f"F.pad({{f@2-3}}, ({_HALF}, 0), mode={{one:'reflect'|'replicate'|'circular'}})",
    f"F.pad({{f@1+}}, (0, -({_HALF})))",
    "F.pixel_shuffle({f@4}.repeat(1, 4, 1, 1), {f}.shape[-1] // {f}.shape[-1] + 1)",
    f"F.unfold({{f@4}}, 2, padding={_HALF}, stride={_PARITY})",
    f"F.local_response_norm({{f@3+}}, {_HALF} + 1)",
    "F.layer_norm({f@1+}.clamp(-4, 4), ({f}.shape[-1],))",
    "F.rms_norm({f@1+}, ({f}.shape[-1],), eps=1 / {f}.shape[-1])",
    "F.scaled_dot_product_attention({f@3+}.clamp(-4, 4), {f}.clamp(-4, 4), {f}.clamp(-4, 4), "
    "scale=1 / {f}.shape[-1])",
    # functions of elements
    *(
        f"F.{name}"
        for name in (
            "softplus({f@1+}, beta={f}.shape[-1])",
            "elu({f@1+}, alpha={f}.shape[-1])",
            "celu({f@1+}, alpha={f}.shape[-1])",
            "leaky_relu({f@1+}, 1 / {f}.shape[-1])",
            "hardtanh({f@1+}, -{f}.shape[-1], {f}.shape[0])",
            "threshold({f@1+}, {f}.shape[-1] / 10, {f}.shape[-1])",
            "softshrink({f@1+}, {f}.shape[-1] / 4)",
            "hardshrink({f@1+}, {f}.shape[-1] / 4)",
        )
    ),
    "{n@1+}.clamp(-{n}.shape[-1] / 2, {n}.shape[0])",
    "{n@1+} ** ({n}.shape[-1] % 3)",
    "{f@1+} / {f}.shape[-1] + {f} // {f}.shape[-1]",
    "{n@1+} % {n}.shape[-1]",
    "torch.add({n@1+}, {n}, alpha={n}.shape[-1])",
    "torch.lerp({f@1+}, {f} * 2, 1 / {f}.shape[-1])",
    "torch.addcmul({f@1+}, {f}, {f}, value=1 / {f}.shape[-1])",
    "torch.nan_to_num({f@1+}, nan={f}.shape[-1])",
    "{n@1+}.masked_fill({n} > 0, {n}.shape[-1])",
    "torch.where({n@1+} > {n}.shape[-1] - 3, {n}, {n}.shape[0])",
    # movement
    "torch.roll({n@1+}, {n}.shape[-1] // 2, -1)",
    "torch.roll({n@2+}, {n}.shape[-1], 0)",
    "{n@1+}.select(-1, {n}.shape[-1] // 2)",
    "{n@1+}.narrow(-1, {n}.shape[-1] // 4, {n}.shape[-1] // 2)",
    "{n@1+}[..., {n}.shape[-1] // 2:]",
    "{n@1+}[::{n}.shape[0] % 2 + 1]",
    "{n@2+}.tril({n}.shape[-1] // 2 - 1)",
    "{n@2+}.triu(-({n}.shape[-2] // 2))",
    "{n@2+}.diagonal({n}.shape[-1] // 2, -2, -1)",
    "{n@1+}.unfold(-1, 2, {n}.shape[-1] % 2 + 1)",
    "{n@1+}.repeat_interleave({n}.shape[-1] % 2 + 1, -1)",
    "{n@1+}.tile({n}.shape[-1] % 2 + 1)",
    "{n@1+}.split([{n}.shape[-1] // 2, {n}.shape[-1] - {n}.shape[-1] // 2], -1)[{int:r(0, 2)}]",
    "torch.select_scatter({n@2+}, {n}[:, 0], 1, {n}.shape[1] // 2)",
    "torch.slice_scatter({n@1+}, {n}[:{n}.shape[0] // 2], 0, {n}.shape[0] // 4, "
    "{n}.shape[0] // 4 + {n}.shape[0] // 2)",
    "torch.topk({f@1+}.nan_to_num(0, 9, -9), {f}.shape[-1] // 2 + 1, -1)[0]",
    # creation
    "torch.eye({f@2+}.shape[-2]) @ {f}.float().clamp(-4, 4)",
    "torch.arange(0, {f@1+}.shape[-1] * 2, 2) * {f}",
    "torch.linspace(0, 1, {f@1+}.shape[-1]) * {f}",
    "torch.full({n@1+}.shape, {n}.shape[-1]) + {n}",
    "{n@1+}[..., torch.arange(0, {n}.shape[-1], {n}.shape[-1] % 2 + 1)]",
    # reductions
    "{f@1+}.clamp(-4, 4).sum(-1) / {f}.shape[-1]",
    "{f@1+}.clamp(-4, 4).var(-1, correction=1)",
    "{f@1+}.clamp(-4, 4).cumsum(-1) / torch.arange(1, {f}.shape[-1] + 1)",
    "{f@1+}.clamp(-4, 4).norm({f}.shape[-1] % 2 + 1, -1)",
    "F.embedding(torch.arange({f@2}.shape[-1]) % {f}.shape[0], {f})",
)
