# SPDX-License-Identifier: Apache-2.0
"""Shaders of attention and its state."""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
1.2! 1.2 buffer.2
| texture3d,buffer half,float
  apply_rotary_emb_interleaved_$_$
1.float! 1.3 2.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  fused_sdpa_qk_tiled_$_$_$
1.float! 1.3 2.3 1.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  fused_sdpa_qk_tiled_bias_$_$_$
1.2! 1.float
| texture3d,buffer float,half
  fused_sdpa_softmax_$_$
1.2! 1.2! 1.2 1.2 1.2 1.2
| texture3d,buffer half,float
  rotary_embedding_$_$ rotary_embedding_hf_$_$
1.2! 1.2
| texture3d,buffer float,half
  sdpa_attn_weights_softmax_$_$
1.3! 1.3 2.3
| buffer buffer,texture3d float,half; texture3d texture3d float,half
  fused_sdpa_av_tiled_$_$_$ sdpa_compute_attn_weights_coop_$_$_$
  sdpa_compute_attn_weights_tiled_$_$_$ sdpa_compute_out_coop_$_$_$ sdpa_compute_out_tiled_$_$_$
1.3! 2.3
| buffer,texture3d buffer float,half; texture3d texture3d float,half
  sdpa_kv_cache_update_$_$_$
"""
