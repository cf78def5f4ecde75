# SPDX-License-Identifier: Apache-2.0
"""Targets of generated programs: a backend with its options, and how exact its results are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import torch

from tests.generated import quantizing
from tests.generated.quantizing import QUANTIZATIONS

# Backend, precision: each is a column of the campaign.
PORTABLE: Final = "portable"
MLX: Final = "mlx"
MLX_FLOAT16: Final = "mlx fp16"
MPS: Final = "mps"
MPS_FLOAT16: Final = "mps fp16"
VULKAN: Final = "vulkan"
VULKAN_BUFFER: Final = "vulkan buffer"
VULKAN_FLOAT16: Final = "vulkan fp16"
TOSA: Final = "tosa"
TOSA_FLOATING: Final = "tosa fp"
XNNPACK: Final = "xnnpack"
XNNPACK_FLOAT16: Final = "xnnpack fp16"
TARGETS: Final = (
    *(PORTABLE, MLX, MLX_FLOAT16, MPS, MPS_FLOAT16),
    *(VULKAN, VULKAN_BUFFER, VULKAN_FLOAT16),
    *(TOSA, TOSA_FLOATING, XNNPACK, XNNPACK_FLOAT16),
)

_EPSILON16: Final = torch.finfo(torch.float16).eps


class Target(NamedTuple):
    """How a program is lowered for a target, and how exact its results are.

    Attributes:
        backend: its backend.
        options: of the backend.
        least: relative error of each operation, if it is more than that of the dtypes.
        base: the target that it differs from in `options` only: without a delegate there, it is the same.
        keeps_nonfinite: whether its kernels compute NaN and infinities as torch does.
        keeps_infinite_maxima: whether a max pool of minus infinity only is minus infinity, not the lowest
            float32, and a softmax of such a row NaN, not 0.
        keeps_groups: whether an infinity in one group of a convolution stays in this group.
        keeps_int64: whether its delegates receive int64; others receive int32, without a check of the range.
        keeps_long_integers: whether sums and extrema of integers beyond 2^24 are exact.
        keeps_large_scores: whether attention computes scores in float32, also those of float16 operands.
        keeps_subnormals: whether subnormal values differ from zero.
        quantization: of the program before, a key of `QUANTIZATIONS`.
    """

    backend: str = "portable"
    options: Mapping[str, str] = {}
    least: float = 0.0
    base: str = ""
    keeps_nonfinite: bool = True
    keeps_infinite_maxima: bool = True
    keeps_groups: bool = True
    keeps_int64: bool = True
    keeps_long_integers: bool = True
    keeps_large_scores: bool = True
    keeps_subnormals: bool = True
    quantization: str = ""


_VULKAN: Final = partial(
    Target,
    "vulkan",
    keeps_infinite_maxima=False,
    keeps_groups=False,
    keeps_int64=False,
    keeps_long_integers=False,
    keeps_large_scores=False,
)
# With AVX-512, the square root of infinity is NaN, and exp(NaN) is 0. Comparisons take subnormals for zero.
_XNNPACK: Final = partial(Target, "xnnpack", keeps_nonfinite=False, keeps_subnormals=False)

PLAIN: Final = {
    PORTABLE: Target(),
    MLX: Target("mlx"),
    MLX_FLOAT16: Target("mlx", {"precision": "fp16"}, _EPSILON16, MLX),
    MPS: Target("mps"),
    MPS_FLOAT16: Target("mps", {"precision": "fp16"}, _EPSILON16, MPS),
    VULKAN: _VULKAN({}),
    VULKAN_BUFFER: _VULKAN({"storage": "buffer"}, 0.0, VULKAN),
    VULKAN_FLOAT16: _VULKAN({"precision": "fp16"}, _EPSILON16, VULKAN),
    TOSA: Target("tosa", {"specification": "TOSA-1.0+INT+FP+bf16"}, keeps_int64=False),
    TOSA_FLOATING: Target("tosa", {"specification": "TOSA-1.0+FP"}, keeps_int64=False),
    XNNPACK: _XNNPACK(),
    XNNPACK_FLOAT16: _XNNPACK({"precision": "fp16"}, _EPSILON16, XNNPACK),
}


def _quantized(backend: str, quantization: str, specification: str = "") -> tuple[str, Target]:
    options = {"specification": specification} if specification else {}
    keeps = PLAIN[backend].keeps_int64
    return f"{backend} {quantization}", Target(backend, options, keeps_int64=keeps, quantization=quantization)


# Quantized programs are another column for each way to quantize.
QUANTIZED: Final = dict(
    (
        *(_quantized("xnnpack", each) for each in QUANTIZATIONS),
        *(_quantized("portable", each) for each in (quantizing.INT8, quantizing.DYNAMIC_INT4)),
        *(_quantized("vulkan", each) for each in (quantizing.INT8, quantizing.WEIGHTS_INT4)),
        *(_quantized("mlx", each) for each in (quantizing.WEIGHTS_INT8, quantizing.WEIGHTS_INT4)),
        *(_quantized("mps", each) for each in (quantizing.WEIGHTS_INT8, quantizing.WEIGHTS_INT4)),
        _quantized("tosa", quantizing.INT8, "TOSA-1.0+INT"),
        _quantized("tosa", quantizing.INT16, "TOSA-1.0+INT+int16"),
    )
)
LOWERINGS: Final = PLAIN | QUANTIZED
# Those whose programs the stock runtime runs on this host.
IN_RUNTIME: Final = frozenset(
    name for name, target in LOWERINGS.items() if target.backend in ("portable", "xnnpack")
)
# Those whose graphs run in Arm's reference model, too.
IN_REFERENCE_MODEL: Final = frozenset(name for name, target in LOWERINGS.items() if target.backend == "tosa")
