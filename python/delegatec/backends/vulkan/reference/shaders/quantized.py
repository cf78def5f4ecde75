# SPDX-License-Identifier: Apache-2.0
"""Shaders of quantized operators."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
texture3d.2! texture3d.2! 1.2
| texture3d,buffer float,half
  choose_qparams_per_row_$_$_zpinherit
texture3d.2! texture3d.int8! 1.2
| texture3d,buffer float,half
  choose_qparams_per_row_$_$_zpint8
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
  linear_qcs4w_coop_$_$_$_$_$_o4x1 linear_qcs4w_tiled_$_$_$_$_$_o4x1
  linear_qcs4w_tiled_$_$_$_$_$_o4x2 linear_qcs4w_tiled_$_$_$_$_$_o4x3
  linear_qcs4w_tiled_$_$_$_$_$_o4x4
1.5! 1.5 3.uint32 4.5
| buffer buffer buffer texture2d float; texture3d texture3d buffer texture2d float
  linear_qcs4w_tiled_$_$_$_$_$_o4x1 linear_qcs4w_tiled_$_$_$_$_$_o4x2
  linear_qcs4w_tiled_$_$_$_$_$_o4x3 linear_qcs4w_tiled_$_$_$_$_$_o4x4
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
"""
