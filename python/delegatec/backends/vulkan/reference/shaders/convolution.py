# SPDX-License-Identifier: Apache-2.0
"""Shaders of convolutions, pooling and images."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
texture3d.1! texture3d.1
| half,float,int32
  avg_pool2d_$
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
  conv2d_dw_sned_output_tile_3x3_$ conv2d_dw_sned_output_tile_3x3_clamp_$
  conv2d_dw_sned_output_tile_5x5_$ conv2d_dw_sned_output_tile_5x5_clamp_$ conv2d_pw_$
  conv2d_pw_clamp_$ conv_transpose2d_$ conv_transpose2d_clamp_$
texture3d.1!
| half,float
  grid_priors_$
texture3d.1! texture3d.1 buffer.1
| half,float
  grid_sampler_2d_$
1.3! 1.3 2.3
| texture3d,buffer texture2d,buffer float,half
  conv1d_pw_$_$_$
1.3! 1.3 2.3 1.3
| texture3d,buffer texture2d,buffer float,half
  conv1d_pw_bias_$_$_$
1.2! 1.2 1.2
| texture3d,buffer float,half
  conv1d_dw_$_$
1.2! 1.2 1.2 1.2
| texture3d,buffer float,half
  conv1d_dw_bias_$_$
texture3d.1! texture3d.int32! texture3d.1
| half,float
  max_pool2d_$
1.2! buffer.3
| texture2d float,half float; texture2d half half
  pack_conv2d_gemm_weight_$_$_$
texture3d.1! texture3d.1
| half,float
  upsample_bilinear2d_$ upsample_nearest2d_$
1.2! 1.2
| buffer,texture3d half,float
  pixel_shuffle_$_$
"""
