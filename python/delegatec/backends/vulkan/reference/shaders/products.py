# SPDX-License-Identifier: Apache-2.0
"""Shaders of matrix products."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
1.3! 1.3 2.3
| buffer texture2d,buffer float,half
  linear_$_$_$ linear_tile_row_1_$_$_$ linear_tile_row_2_$_$_$
1.3! 1.3 2.3 1.3
| buffer texture2d,buffer float,half
  linear_bias_$_$_$ linear_bias_tile_row_1_$_$_$ linear_bias_tile_row_2_$_$_$
1.3! 1.3 2.3
| texture3d,buffer texture2d,buffer float,half
  linear_vec_$_$_$ linear_vec_tile_row_1_$_$_$ linear_vec_tile_row_2_$_$_$
1.3! 1.3 2.3 1.3
| texture3d,buffer texture2d,buffer float,half
  linear_vec_bias_$_$_$ linear_vec_bias_tile_row_1_$_$_$ linear_vec_bias_tile_row_2_$_$_$
1.2! 1.2 1.2
| buffer float,half
  matmul_$_$ matmul_tile_row_1_$_$ matmul_tile_row_2_$_$
1.2! 1.2 1.2 1.2
| buffer float,half
  matmul_bias_$_$ matmul_bias_tile_row_1_$_$ matmul_bias_tile_row_2_$_$
1.2! 1.2 1.2
| texture3d,buffer float,half
  matmul_vec_$_$ matmul_vec_tile_row_1_$_$ matmul_vec_tile_row_2_$_$
1.2! 1.2 1.2 1.2
| texture3d,buffer float,half
  matmul_vec_bias_$_$ matmul_vec_bias_tile_row_1_$_$ matmul_vec_bias_tile_row_2_$_$
1.2! buffer.3
| buffer,texture2d float float; buffer,texture2d half half; texture2d half float
  pack_fp_linear_weight_$_$_$
"""
