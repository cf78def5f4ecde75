# SPDX-License-Identifier: Apache-2.0
"""Shaders of copies, moves and gathers."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
1.3! 1.2
| buffer float,half float; buffer half half; buffer int32 int32; buffer int8 int8; buffer uint8 uint8
  $_to_nchw_$_$
1.2!
| texture3d,buffer half,float,int32
  arange_$_$
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
1.2! 1.int32 buffer.2
| texture3d,buffer half,float
  embedding_$_$
texture3d.1! texture3d.int32 texture2d.1
| half,float,int32
  embedding_legacy_$
texture3d.1! texture3d.1
| half,float,int8,uint8,int32
  flip_$
1.2!
| texture3d,buffer half,float,int32,uint8
  full_$_$
1.2! 1.2 1.int32
| texture3d,buffer half,float,int32,uint8
  gather_$_$
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
1.2! 1.3
| buffer float,half float; buffer half half; buffer int32 int32; buffer int8 int8; buffer uint8 uint8
  nchw_to_$_$_$
1.2! buffer.3
| texture2d,texture3d float,half float; texture2d,texture3d half half; texture2d,texture3d int32
| int32; texture2d,texture3d int8 int8; texture2d,texture3d uint8 uint8
  nchw_to_image_$_$_$
1.2! 1.2
| texture3d,buffer float,half,int32,uint8
  pad_$_$
1.2! 1.2
| texture3d,buffer half,float,int32,uint8
  permute_$_$
1.2! 1.2
| buffer,texture3d half,float,int32,int8,uint8
  repeat_$_$
2.1!
| half,float,int32 texture3d,buffer float,int32,bool
  scalar_tensor_$_$_$
1.2! 1.2
| buffer,texture3d half,float,int32,uint8
  expand_$_$ select_$_$ select_ubo_$_$ slice_$_$ slice_ubo_$_$ split_$_$
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
"""
