# SPDX-License-Identifier: Apache-2.0
"""The instruction set of TOSA in SPIR-V: an instruction has the code of its operator, less one.

Attributes are constant operands, which precede the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from delegatec_schemas.tosa_graph import DType

_CONVOLUTION: Final = ("pad", "stride", "dilation", "acc_type", "local_bound")

INSTRUCTIONS: Final = "TOSA.001000.1"

ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "ARGMAX": ("axis", "nan_mode"),
    "AVG_POOL2D": ("kernel", "stride", "pad", "acc_type"),
    "CONV2D": _CONVOLUTION,
    "CONV3D": _CONVOLUTION,
    "DEPTHWISE_CONV2D": _CONVOLUTION,
    "FFT2D": ("inverse", "local_bound"),
    "MAX_POOL2D": ("kernel", "stride", "pad", "nan_mode"),
    "RFFT2D": ("local_bound",),
    "TRANSPOSE_CONV2D": ("out_pad", "stride", "acc_type", "local_bound"),
    "CLAMP": ("min_val", "max_val", "nan_mode"),
    "ARITHMETIC_RIGHT_SHIFT": ("round",),
    "MAXIMUM": ("nan_mode",),
    "MINIMUM": ("nan_mode",),
    "REDUCE_ALL": ("axis",),
    "REDUCE_ANY": ("axis",),
    "REDUCE_MAX": ("axis", "nan_mode"),
    "REDUCE_MIN": ("axis", "nan_mode"),
    "REDUCE_PRODUCT": ("axis",),
    "REDUCE_SUM": ("axis",),
    "CONCAT": ("axis",),
    "REVERSE": ("axis",),
    "TRANSPOSE": ("perms",),
    "RESIZE": ("mode",),
    "RESCALE": ("scale32", "rounding_mode", "per_channel", "input_unsigned", "output_unsigned"),
}
"""Operator -> its attributes, in order."""

SHAPES: Final[Mapping[str, tuple[int, ...]]] = {
    "PAD": (1,),
    "RESHAPE": (1,),
    "SLICE": (1, 2),
    "TILE": (1,),
    "RESIZE": (1, 2, 3),
}
"""Operator -> positions of the operands that are shapes, without attributes. In SPIR-V they are tensors."""

LISTS: Final = frozenset({"kernel", "stride", "pad", "dilation", "out_pad", "perms"})
"""Attributes that are lists of integers."""
ELEMENTS: Final = frozenset({"min_val", "max_val"})
"""Attributes that are stored as the bytes of an element."""

ACCUMULATORS: Final = {1: DType.INT32, 2: DType.FP16, 3: DType.FP32, 4: DType.INT48}
"""The attribute `acc_type` -> the type."""
