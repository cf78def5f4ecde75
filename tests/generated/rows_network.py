# SPDX-License-Identifier: Apache-2.0
"""Rows of layers of neural networks."""

from __future__ import annotations

from typing import Final

_CONV: Final = "stride={int2:r(1, 3)}, padding={int3:r(0, 3)}, dilation={int4:r(1, 3)}"

# Infinity times zero is NaN, or is not computed.
_FINITE: Final = ".nan_to_num(0, 9, -9)"

NETWORK: Final = (
    f"F.conv1d({{f@3}}, {{W:(r(1, 4), x.shape[1], r(1, 4))}}, {_CONV})",
    f"F.conv2d({{f@4}}, {{W:(r(1, 4), x.shape[1], r(1, 4), r(1, 4))}}, {_CONV})",
    f"F.conv3d({{f@5}}, {{W:(2, x.shape[1], 2, r(1, 3), 1)}}, {_CONV})",
    f"F.conv2d({{f@4}}, {{W:(x.shape[1], 1, 3, 2)}}, {{W1:(x.shape[1],)}}, {_CONV}, groups={{f}}.shape[1])",
    f"F.conv1d({{f@3}}, {{W:(x.shape[1] * 2, 1, 2)}}, None, {_CONV}, groups={{f}}.shape[1])",
    "F.conv2d({f@4}, {W:(2, x.shape[1], 3, 3)}, padding='same')",
    "F.conv1d({f@2}, {W:(2, x.shape[0], 2)})",
    "F.conv_transpose1d({f@3}, {W:(x.shape[1], r(1, 3), r(1, 4))}, stride={int2:r(1, 3)}, "
    "padding={int3:r(0, 2)})",
    "F.conv_transpose2d({f@4}, {W:(x.shape[1], r(1, 3), 3, 2)}, stride={int2:r(1, 3)}, "
    "padding={int3:r(0, 2)}, dilation={int4:r(1, 3)})",
    "F.conv_transpose2d({f@4}, {W:(x.shape[1], 2, 2, 2)}, {W1:(2,)}, stride=2, output_padding={int:r(0, 2)})",
    "F.conv_transpose2d({f@4}, {W:(x.shape[1], 1, 2, 2)}, groups={f}.shape[1])",
    "F.conv_transpose3d({f@5}, {W:(x.shape[1], 2, 2, 1, 2)}, stride={int2:r(1, 3)})",
    "F.max_pool1d({f@2-3}, {int:r(1, 4)}, {int2:r(1, 3)}, ceil_mode={keep})",
    "F.max_pool2d({f@3-4}, {int:r(1, 4)}, {int2:r(1, 3)}, padding={int3:int // 2}, ceil_mode={keep})",
    "F.max_pool2d({f@3-4}, 2, dilation={int:r(1, 3)}, return_indices=True)[{int2:r(0, 2)}]",
    "F.max_pool3d({f@4-5}, {int:r(1, 3)}, {int2:r(1, 3)})",
    "F.avg_pool1d({f@2-3}, {int:r(1, 4)}, {int2:r(1, 3)}, ceil_mode={keep})",
    "F.avg_pool2d({f@3-4}, {int:r(1, 4)}, {int2:r(1, 3)}, padding={int3:int // 2}, ceil_mode={keep}, "
    "count_include_pad={one:True|False})",
    "F.avg_pool2d({f@3-4}, 2, divisor_override={int:r(1, 4)})",
    "F.avg_pool3d({f@4-5}, {int:r(1, 3)}, {int2:r(1, 3)})",
    "F.lp_pool1d({f@3}, 2, {int:r(1, 3)})",
    "F.lp_pool2d({f@4}, {one:1.0|2.0}, 2)",
    "F.adaptive_avg_pool1d({f@2-3}, {int:r(1, 4)})",
    "F.adaptive_avg_pool2d({f@3-4}, {int:(r(1, 4), r(1, 4))})",
    "F.adaptive_avg_pool2d({f@4}, 1)",
    "F.adaptive_avg_pool3d({f@4-5}, {int:r(1, 3)})",
    "F.adaptive_max_pool1d({f@2-3}, {int:r(1, 4)})",
    "F.adaptive_max_pool2d({f@3-4}, {int:r(1, 4)})",
    f"F.interpolate({{f@3}}{_FINITE}, scale_factor={{one:2|0.5|1.5}}, "
    f"mode={{one:'nearest'|'linear'|'nearest-exact'}})",
    f"F.interpolate({{f@4}}{_FINITE}, size={{int:(r(1, 8), r(1, 8))}}, "
    "mode={one:'nearest'|'bilinear'|'bicubic'|'nearest-exact'|'area'})",
    f"F.interpolate({{f@4}}{_FINITE}, scale_factor={{one:2|0.5|1.5}}, mode={{one:'bilinear'|'bicubic'}}, "
    "align_corners={keep})",
    f"F.interpolate({{f@4}}.repeat(1, 1, 4, 4){_FINITE}, scale_factor=0.5, "
    f"mode={{one:'bilinear'|'bicubic'}}, antialias=True)",
    f"F.interpolate({{f@5}}{_FINITE}, scale_factor=2, mode={{one:'nearest'|'trilinear'}})",
    "F.upsample_nearest({f@4}, scale_factor=2)",
    f"F.upsample({{f@4}}{_FINITE}, scale_factor=2, mode='nearest')",
    "F.batch_norm({f@2+}, {W:(x.shape[1],)}, {W1:(x.shape[1],)}.abs(), {W2:(x.shape[1],)}, "
    "{W3:(x.shape[1],)})",
    "F.batch_norm({f@2+}, {W:(x.shape[1],)}, {W1:(x.shape[1],)}.abs())",
    "F.instance_norm({f@3+}, weight={W:(x.shape[1],)})",
    "F.layer_norm({f@1+}.clamp(-4, 4), ({f}.shape[-1],), {W:(x.shape[-1],)}, {W1:(x.shape[-1],)})",
    "F.layer_norm({f@2+}.clamp(-4, 4), {f}.shape[-2:])",
    "F.rms_norm({f@1+}, ({f}.shape[-1],), {W:(x.shape[-1],)}, eps=1e-5)",
    "F.group_norm({f@2+}.clamp(-4, 4), 1, {W:(x.shape[1],)})",
    "F.group_norm({f@3+}.clamp(-4, 4), {f}.shape[1])",
    "F.local_response_norm({f@3+}, {int:r(1, 4)})",
    f"F.scaled_dot_product_attention({{f@3+}}{_FINITE}, {{f1=}}{_FINITE}, {{f2=}}{_FINITE})",
    f"F.scaled_dot_product_attention({{f@3+}}{_FINITE}, {{f1=}}{_FINITE}, {{f}}{_FINITE}, is_causal=True)",
    f"F.scaled_dot_product_attention({{f@3+}}{_FINITE}, {{f}}{_FINITE}, {{f1=}}{_FINITE}, "
    f"attn_mask={{B:(x.shape[-2], x.shape[-2])}})",
    f"F.scaled_dot_product_attention({{f@4}}{_FINITE}, {{f}}{_FINITE}, {{f}}{_FINITE}, "
    f"attn_mask={{W:(x.shape[-2], x.shape[-2])}}, scale=0.5)",
    f"F.scaled_dot_product_attention({{f@4}}{_FINITE}, {{f}}{_FINITE}[:, :1], {{f}}{_FINITE}[:, :1], "
    f"enable_gqa=True)",
    "F.alpha_dropout({f}, 0.5, training=False)",
    "F.dropout2d({f@3-4}, 0.3, training=False)",
    "F.feature_alpha_dropout({f@2+}, 0.3, training=False)",
    "torch.pixel_shuffle({f@4}.repeat(1, 4, 1, 1), 2)",
)
