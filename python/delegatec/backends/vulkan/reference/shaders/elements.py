# SPDX-License-Identifier: Apache-2.0
"""Shaders of elementwise functions."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
1.2! 1.2 1.2
| buffer,texture3d half,float,int32
  binary_add_$_$ binary_div_$_$ binary_floor_divide_$_$ binary_minimum_$_$ binary_mul_$_$
  binary_pow_$_$ binary_sub_$_$
1.2! 1.2 1.2
| buffer,texture3d uint8
  binary_bitwise_and_$_$ binary_bitwise_or_$_$
2.uint8! 2.1 2.1
| int32 buffer,texture3d
  binary_eq_$_$
1.uint8! 1.2 1.2
| buffer,texture3d half,float
  binary_eq_$_$
1.uint8! 1.2 1.2
| buffer,texture3d half,float,int32
  binary_ge_$_$ binary_gt_$_$ binary_le_$_$ binary_lt_$_$
2.1! 2.1
| uint8 texture3d,buffer
  bitwise_not_$_$
2.1! 2.1
| half,float,int32 texture3d,buffer
  clamp_$_$
1.uint8! 1.2
| buffer,texture3d float,half,int32 float; buffer,texture3d int32 int32
  eq_scalar_$_$_$
1.2! 1.2
| buffer,texture3d float,half,int32 float; buffer,texture3d int32 int32
  pow_scalar_$_$_$
2.1! 2.1
| half,float texture3d,buffer
  abs_$_$ cos_$_$ exp_$_$ gelu_$_$ hardshrink_$_$ hardsigmoid_$_$ hardswish_$_$ leaky_relu_$_$
  neg_$_$ round_$_$ rsqrt_$_$ sigmoid_$_$ sin_$_$ sqrt_$_$ tan_$_$ tanh_$_$
1.2! 1.uint8 1.2 1.2
| texture3d,buffer half,float
  where_$_$
"""
