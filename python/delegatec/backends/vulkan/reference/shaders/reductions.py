# SPDX-License-Identifier: Apache-2.0
"""Shaders of reductions and normalization."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
1.int32! 1.2
| buffer float,half,int32
  argmax_per_row_$_$ argmin_per_row_$_$
texture3d.1! texture3d.1 texture3d.1 texture3d.1 texture3d.1 texture3d.1
| half,float
  batchnorm_$
buffer.1! buffer.1! texture3d.1
| half,float
  group_norm_reduce_texture_$
texture3d.1! texture3d.1 texture3d.1 texture3d.1 buffer.1 buffer.1
| half,float
  group_norm_texture_$
1.2! 1.2! 1.2! 1.2 1.2 1.2
| buffer,texture3d half,float
  native_layer_norm_$_$
1.2! 1.2 1.2
| texture3d,buffer half,float
  rms_norm_$_$
1.2! 1.2
| texture3d,buffer half,float
  log_softmax_$_$ softmax_$_$
texture3d.1! texture3d.1
| half,float
  amax2d_$ amax_$ amin2d_$ amin_$ mean2d_$ mean_$ sum2d_$ sum_$
1.2! 1.2
| buffer float,half,int32
  amax_per_row_$_$ amin_per_row_$_$ mean_per_row_$_$ sum_per_row_$_$
1.2! 1.2
| buffer,texture3d half,float
  var_$_$
"""
