# SPDX-License-Identifier: Apache-2.0
"""The runtime's shaders: which exist, and which tensors they bind.

An operator builds a shader's name from storage types and dtypes, and the runtime aborts if it is unknown.
Otherwise it binds tensors in order without checks, so that a buffer instead of a texture, or int32 instead of
float16, gives garbage.

Read off the runtime's templates (backends/vulkan/runtime/graph/ops/glsl of ExecuTorch 1.4.1).
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Final, NamedTuple


class Binding(NamedTuple):
    """A tensor of a shader.

    Attributes:
        storage: "buffer", "texture3d" or "texture2d".
        dtype: the shaders' name of a dtype: "float", "half", "int32", "int8", "uint8".
        written: whether it is a result.
    """

    storage: str
    dtype: str
    written: bool


def bindings_of(kernel: str) -> tuple[Binding, ...] | None:
    """Returns the tensors of a shader in order, or None if it does not exist."""
    return _kernels().get(kernel)


@cache
def _kernels() -> dict[str, tuple[Binding, ...]]:
    found: dict[str, tuple[Binding, ...]] = {}
    tensors, variants = "", ""
    for line in _TABLE.splitlines():
        if line.startswith("|"):
            variants += line[1:]
            continue
        if not line.startswith("  "):
            tensors, variants = line, ""
            continue
        for words in _combinations(variants):
            bindings = tuple(_binding(text, words) for text in tensors.split())
            for pattern in line.split():
                first, *rest = pattern.split("$")
                found["".join([first, *(a + b for a, b in zip(words, rest, strict=True))])] = bindings
    return found


def _combinations(variants: str) -> list[tuple[str, ...]]:
    return [
        words
        for alternative in variants.split(";")
        for words in product(*(column.split(",") for column in alternative.split()))
    ]


def _binding(text: str, words: tuple[str, ...]) -> Binding:
    storage, dtype = (
        words[int(word) - 1] if word.isdigit() else word for word in text.rstrip("!").split(".")
    )
    return Binding(storage, dtype, text.endswith("!"))


# Lines of tensors, of variants (|), then of names. Tensors are storage.dtype, with ! if written, where a
# number is that word of the variant. Variants are the product of their columns; there may be several, after
# ";". A name has a $ for each word of the variant.
_TABLE: Final = """\
1.3! 1.2
| buffer float,half float; buffer half half; buffer int32 int32; buffer int8 int8; buffer uint8 uint8
  $_to_nchw_$_$
1.2! 1.2 buffer.2
| texture3d,buffer half,float
  apply_rotary_emb_interleaved_$_$
1.2!
| texture3d,buffer half,float,int32
  arange_$_$
1.int32! 1.2
| buffer float,half,int32
  argmax_per_row_$_$ argmin_per_row_$_$
texture3d.1! texture3d.1
| half,float,int32
  avg_pool2d_$
texture3d.1! texture3d.1 texture3d.1 texture3d.1 texture3d.1 texture3d.1
| half,float
  batchnorm_$
1.2! 1.2 1.2
| buffer,texture3d half,float,int32
  binary_add_$_$ binary_div_$_$ binary_floor_divide_$_$ binary_minimum_$_$ binary_mul_$_$ binary_pow_$_$
  binary_sub_$_$
1.2! 1.2 1.2
| buffer,texture3d uint8
  binary_bitwise_and_$_$ binary_bitwise_or_$_$
2.uint8! 2.1 2.1
| int32 buffer
  binary_eq_$_$
1.uint8! 1.2 1.2
| buffer half
  binary_eq_$_$
1.uint8! 1.2 1.2
| buffer float
  binary_eq_$_$
2.uint8! 2.1 2.1
| int32 texture3d
  binary_eq_$_$
1.uint8! 1.2 1.2
| texture3d half
  binary_eq_$_$
1.uint8! 1.2 1.2
| texture3d float
  binary_eq_$_$
1.uint8! 1.2 1.2
| buffer,texture3d half,float,int32
  binary_ge_$_$ binary_gt_$_$ binary_le_$_$ binary_lt_$_$
2.1! 2.1
| uint8 texture3d,buffer
  bitwise_not_$_$
texture3d.2! texture3d.2! 1.2
| texture3d,buffer float,half
  choose_qparams_per_row_$_$_zpinherit
texture3d.2! texture3d.int8! 1.2
| texture3d,buffer float,half
  choose_qparams_per_row_$_$_zpint8
2.1! 2.1
| half,float,int32 texture3d,buffer
  clamp_$_$
texture3d.2! 1.3
| buffer float,half float; buffer half half; buffer int32 int32; buffer int8 int8; buffer uint8 uint8
  clone_$_to_image_$_$
1.3! texture3d.2
| buffer float,half float; buffer half half; buffer int32 int32; buffer int8 int8; buffer uint8 uint8
  clone_image_to_$_$_$
1.2! 1.2 buffer.int32
| texture3d,buffer half,float,int32
  concat_1_$_$
1.2! 1.2 1.2 buffer.int32
| texture3d,buffer half,float,int32
  concat_2_$_$
1.2! 1.2 1.2 1.2 buffer.int32
| texture3d,buffer half,float,int32
  concat_3_$_$
texture3d.1! texture3d.1 texture3d.1 texture3d.1
| half,float
  conv1d_$ conv1d_clamp_$
texture3d.2! 1.2 texture2d.2 texture2d.2
| texture2d,texture3d,buffer float,half
  conv2d_gemm_$_$
1.2! texture3d.2
| texture2d,texture3d,buffer float,half
  conv2d_im2col_$_$
texture3d.1! texture3d.1 texture2d.1 texture2d.1
| float,half
  conv2d_pw_tiled_$
texture3d.1! texture3d.1 texture2d.1 texture2d.1
| half,float
  conv2d_$ conv2d_clamp_$ conv2d_dw_$ conv2d_dw_clamp_$ conv2d_dw_output_tile_3x3_$
  conv2d_dw_output_tile_3x3_clamp_$ conv2d_dw_output_tile_5x5_$ conv2d_dw_output_tile_5x5_clamp_$
  conv2d_dw_sned_output_tile_3x3_$ conv2d_dw_sned_output_tile_3x3_clamp_$ conv2d_dw_sned_output_tile_5x5_$
  conv2d_dw_sned_output_tile_5x5_clamp_$ conv2d_pw_$ conv2d_pw_clamp_$ conv_transpose2d_$
  conv_transpose2d_clamp_$
1.2! 1.int32 buffer.2
| texture3d,buffer half,float
  embedding_$_$
texture3d.1! texture3d.int32 texture2d.1
| half,float,int32
  embedding_legacy_$
1.2! 1.int32 buffer.int32 buffer.half
| buffer,texture3d half,float
  embedding_q4gsw_$_$
2.3! 2.int32 buffer.int32 buffer.1
| float buffer,texture3d half,float
  embedding_q4gsw_$_scales_$_$
3.4! 3.int32 2.int32 buffer.1
| float buffer,texture2d buffer,texture3d half,float
  embedding_q4gsw_$_scales_linear_weight_$_$_$
2.3! 2.int32 1.int32 buffer.half
| buffer,texture2d buffer,texture3d half,float
  embedding_q4gsw_linear_weight_$_$_$
1.uint8! 1.2
| buffer,texture3d float,half,int32 float; buffer,texture3d int32 int32
  eq_scalar_$_$_$
texture3d.1! texture3d.1
| half,float,int8,uint8,int32
  flip_$
1.2!
| texture3d,buffer half,float,int32,uint8
  full_$_$
1.float! 1.3 2.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  fused_sdpa_qk_tiled_$_$_$
1.float! 1.3 2.3 1.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  fused_sdpa_qk_tiled_bias_$_$_$
1.2! 1.float
| texture3d,buffer float,half
  fused_sdpa_softmax_$_$
1.2! 1.2 1.int32
| texture3d,buffer half,float,int32,uint8
  gather_$_$
texture3d.1!
| half,float
  grid_priors_$
texture3d.1! texture3d.1 buffer.1
| half,float
  grid_sampler_2d_$
buffer.1! buffer.1! texture3d.1
| half,float
  group_norm_reduce_texture_$
texture3d.1! texture3d.1 texture3d.1 texture3d.1 buffer.1 buffer.1
| half,float
  group_norm_texture_$
buffer.3! 1.2
| texture2d,texture3d float,half float; texture2d,texture3d half half; texture2d,texture3d int32
| int32; texture2d,texture3d int8 int8; texture2d,texture3d uint8 uint8
  image_to_nchw_$_$_$
texture3d.1! texture3d.1 texture3d.int32
| half,float,int32,uint8
  index_select_$ index_select_channel_$
1.2! 1.2 1.int32
| texture3d,buffer half,float
  index_tensor_$_$
1.3! 1.3 2.3
| buffer texture2d,buffer float,half
  linear_$_$_$ linear_tile_row_1_$_$_$ linear_tile_row_2_$_$_$
1.3! 1.3 2.3 1.3
| buffer texture2d,buffer float,half
  linear_bias_$_$_$ linear_bias_tile_row_1_$_$_$ linear_bias_tile_row_2_$_$_$
1.3! 1.3 buffer.int32 buffer.int32 texture3d.3 texture3d.3 2.int32 buffer.int32 buffer.3 buffer.3
| texture3d,buffer texture2d,buffer float,half
  linear_dq8ca_q4gsw_coop_$_$_$_zpinherit linear_dq8ca_q4gsw_tiled_$_$_$_zpinherit
1.3! 1.3 buffer.int32 buffer.int32 texture3d.3 texture3d.int8 2.int32 buffer.int32 buffer.3 buffer.3
| texture3d,buffer texture2d,buffer float,half
  linear_dq8ca_q4gsw_coop_$_$_$_zpint8 linear_dq8ca_q4gsw_tiled_$_$_$_zpint8
1.3! 1.3 2.int32 buffer.3 buffer.3
| texture3d,buffer texture2d,buffer float,half
  linear_q4gsw_coop_$_$_$ linear_q4gsw_tiled_$_$_$ linear_q8csw_tiled_$_$_$
1.4! 2.int32 3.int32 2.int32 2.4 2.4
| texture3d,buffer buffer texture2d float
  linear_q8ta_q8csw_tiled_$_$_$_$
1.5! 1.5 3.uint8 3.5
| buffer buffer texture2d texture2d float; texture3d texture3d texture2d texture2d float
  linear_qcs4w_coop_$_$_$_$_$_o4x1 linear_qcs4w_tiled_$_$_$_$_$_o4x1 linear_qcs4w_tiled_$_$_$_$_$_o4x2
  linear_qcs4w_tiled_$_$_$_$_$_o4x3 linear_qcs4w_tiled_$_$_$_$_$_o4x4
1.5! 1.5 3.uint32 4.5
| buffer buffer buffer texture2d float; texture3d texture3d buffer texture2d float
  linear_qcs4w_tiled_$_$_$_$_$_o4x1 linear_qcs4w_tiled_$_$_$_$_$_o4x2 linear_qcs4w_tiled_$_$_$_$_$_o4x3
  linear_qcs4w_tiled_$_$_$_$_$_o4x4
1.3! 1.3 2.3
| texture3d,buffer texture2d,buffer float,half
  conv1d_pw_$_$_$ linear_vec_$_$_$ linear_vec_tile_row_1_$_$_$ linear_vec_tile_row_2_$_$_$
1.3! 1.3 2.3 1.3
| texture3d,buffer texture2d,buffer float,half
  conv1d_pw_bias_$_$_$ linear_vec_bias_$_$_$ linear_vec_bias_tile_row_1_$_$_$
  linear_vec_bias_tile_row_2_$_$_$
1.2! 1.2 1.2
| buffer float,half
  matmul_$_$ matmul_tile_row_1_$_$ matmul_tile_row_2_$_$
1.2! 1.2 1.2 1.2
| buffer float,half
  matmul_bias_$_$ matmul_bias_tile_row_1_$_$ matmul_bias_tile_row_2_$_$
1.2! 1.2 1.2
| texture3d,buffer float,half
  conv1d_dw_$_$ matmul_vec_$_$ matmul_vec_tile_row_1_$_$ matmul_vec_tile_row_2_$_$
1.2! 1.2 1.2 1.2
| texture3d,buffer float,half
  conv1d_dw_bias_$_$ matmul_vec_bias_$_$ matmul_vec_bias_tile_row_1_$_$ matmul_vec_bias_tile_row_2_$_$
texture3d.1! texture3d.int32! texture3d.1
| half,float
  max_pool2d_$
1.2! 1.2! 1.2! 1.2 1.2 1.2
| buffer,texture3d half,float
  native_layer_norm_$_$
1.2! 1.3
| buffer float,half float; buffer half half; buffer int32 int32; buffer int8 int8; buffer uint8 uint8
  nchw_to_$_$_$
1.2! buffer.3
| texture2d,texture3d float,half float; texture2d,texture3d half half; texture2d,texture3d int32
| int32; texture2d,texture3d int8 int8; texture2d,texture3d uint8 uint8
  nchw_to_image_$_$_$
1.2! buffer.3
| texture2d float,half float; texture2d half half
  pack_conv2d_gemm_weight_$_$_$
1.2! buffer.3
| buffer,texture2d float float; buffer,texture2d half half; texture2d half float
  pack_fp_linear_weight_$_$_$
1.uint8! buffer.uint8
| texture2d,buffer
  pack_int4_linear_weight_transposed_interleaved_$
1.uint8! buffer.uint32
| texture2d
  pack_int4_linear_weight_transposed_interleaved_nobitw8buffer_$
1.uint32! 1.uint32
| buffer
  pack_int4_linear_weight_transposed_interleaved_nobitw8buffer_$
1.int32! buffer.uint32
| buffer,texture2d
  pack_q4_linear_weight_$
1.int32! 1.uint32
| buffer
  pack_q4_linear_weight__w_4x8_nc_$
1.int32! buffer.int32
| buffer,texture2d
  pack_q8_conv2d_dw_weights_$ pack_q8_conv2d_weights_$ pack_q8_linear_weight_$
1.2! 1.2
| texture3d,buffer float,half,int32,uint8
  pad_$_$
1.2! 1.2
| texture3d,buffer half,float,int32,uint8
  permute_$_$
1.2! 1.2
| buffer,texture3d float,half,int32 float; buffer,texture3d int32 int32
  pow_scalar_$_$_$
1.2! 1.2 buffer.2 buffer.int32 buffer.2 buffer.2
| buffer,texture3d float,half
  q4gsw_linear_gemm__tin__w_4x8_nc_$_$ q4gsw_linear_gemm__w_4x8_nc_$_$
1.int32! 1.int32 1.int32
| buffer
  q8ta_add_$
buffer.int32! buffer.int32
|
  q8ta_clone q8ta_im2col q8ta_pixel_shuffle
1.2! buffer.int32
| buffer,texture3d float
  q8ta_dequantize_$_$
buffer.int32! buffer.int32 texture2d.int32 buffer.int32 buffer.1 buffer.1
| float
  q8ta_conv2d_$ q8ta_conv2d_dw_$ q8ta_conv2d_fallback_$ q8ta_conv2d_pw_$ q8ta_conv2d_pw_fallback_$
  q8ta_conv2d_transposed_$ q8ta_conv2d_transposed_fallback_$ q8ta_linear_$ q8ta_linear_fallback_$
  q8ta_linear_gemv_$ q8ta_linear_gemv_fallback_$
buffer.int32! 1.2
| buffer,texture3d float
  q8ta_quantize_$_$
1.int32! 1.int32
| buffer
  int8x4_$_to_nchw nchw_to_int8x4_$ q8ta_relu_$
1.int32! 2.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  quantize_and_pack_4h4w_per_tensor_$_$_$
1.int32! 1.int32! 2.3 texture3d.3 texture3d.3
| buffer texture3d,buffer half,float
  quantize_and_pack_4h4w_with_group_sums_o2w32_$_$_$_zpinherit
  quantize_and_pack_4h4w_with_group_sums_o4w16_$_$_$_zpinherit
1.int32! 1.int32! 2.3 texture3d.3 texture3d.int8
| buffer texture3d,buffer half,float
  quantize_and_pack_4h4w_with_group_sums_o2w32_$_$_$_zpint8
  quantize_and_pack_4h4w_with_group_sums_o4w16_$_$_$_zpint8
1.2! 1.2
| buffer,texture3d half,float,int32,int8,uint8
  repeat_$_$
1.2! 1.2 1.2
| texture3d,buffer half,float
  rms_norm_$_$
1.2! 1.2! 1.2 1.2 1.2 1.2
| texture3d,buffer half,float
  rotary_embedding_$_$ rotary_embedding_hf_$_$
2.1!
| half,float,int32 texture3d,buffer float,int32,bool
  scalar_tensor_$_$_$
1.2! 1.2
| texture3d,buffer float,half
  sdpa_attn_weights_softmax_$_$
1.3! 1.3 2.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  fused_sdpa_av_tiled_$_$_$ sdpa_compute_attn_weights_coop_$_$_$ sdpa_compute_attn_weights_tiled_$_$_$
  sdpa_compute_out_coop_$_$_$ sdpa_compute_out_tiled_$_$_$
1.3! 2.3
| buffer,texture3d buffer float,half; texture3d texture3d float,half
  sdpa_kv_cache_update_$_$_$
1.2! 1.2
| buffer,texture3d half,float,int32,uint8
  expand_$_$ select_$_$ select_ubo_$_$ slice_$_$ slice_ubo_$_$ split_$_$
1.2! 1.2
| texture3d,buffer half,float
  log_softmax_$_$ softmax_$_$
texture3d.1! texture3d.1
| half,float
  amax2d_$ amax_$ amin2d_$ amin_$ mean2d_$ mean_$ sum2d_$ sum_$ upsample_bilinear2d_$ upsample_nearest2d_$
1.2! 1.2
| buffer float,half,int32
  amax_per_row_$_$ amin_per_row_$_$ mean_per_row_$_$ sum_per_row_$_$
2.1! 2.1
| half,float texture3d,buffer
  abs_$_$ cos_$_$ exp_$_$ gelu_$_$ hardshrink_$_$ hardsigmoid_$_$ hardswish_$_$ leaky_relu_$_$ neg_$_$
  round_$_$ rsqrt_$_$ sigmoid_$_$ sin_$_$ sqrt_$_$ tan_$_$ tanh_$_$
1.2! 1.2
| buffer,texture3d half,float
  pixel_shuffle_$_$ var_$_$
1.2! 1.2
| buffer half,float,int8,uint8,int32
  view_$_$
1.3! 1.2
| buffer float half,int32; buffer half float,int32; buffer int32,uint8 float,half; buffer uint8 int32
  view_convert_$_$_$
texture3d.2! texture3d.1
| float half,int32; half float,int32; int32,uint8 float,half; uint8 int32
  view_convert_texture_$_$
texture3d.1! texture3d.1
| half,float,int32,uint8
  clone_$ repeat_interleave_$ view_texture_$
1.2! 1.uint8 1.2 1.2
| texture3d,buffer half,float
  where_$_$
"""
