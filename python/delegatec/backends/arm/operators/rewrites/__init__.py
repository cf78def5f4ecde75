# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that TOSA lacks to calls that it has.

Rules that any target can use are in `edge/legalize/rules` and `edge/channels_last`; those here know TOSA, and
come first.
"""

from __future__ import annotations

import itertools
from typing import Final

import torch

from delegatec.backends.arm.operators.rewrites import (
    products,
    quantized,
    shifts,
)
from delegatec.edge.channels_last import rewrites as channels_last
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import (
    activations,
    batch_norm,
    division,
    exponentials,
    extrema,
    gather,
    index_put,
    integers_by_floats,
    layer_norm,
    padding,
    powers,
    rounding,
    scatter,
    shape,
    slicing,
    softmax,
)
from delegatec.edge.legalize.rules.quantized import QUANTIZE_CHANNELS

aten = torch.ops.aten

_COMPLETE: Final = frozenset(
    {
        *(aten.elu.default, aten.expm1.default, aten.log1p.default),
        *(aten._softmax.default, aten._log_softmax.default),
        *(aten.native_layer_norm.default, aten._native_batch_norm_legit_no_training.default),
        *(aten.pow.Scalar, aten.pow.Tensor_Tensor),
        *(each.target for each in shifts.REWRITES),
    }
)
"""Operators of which the rewrites chosen here apply to each call, so that no shared one follows."""

REWRITES: Final[Rewrites] = rewrites(
    (activations.ELU_IN_FLOAT32, *exponentials.IN_FLOAT32),
    (activations.GELU_BY_ERF, activations.LEAKY_RELU_BY_MAXIMUM),
    (
        *softmax.BY_ARITHMETIC,
        layer_norm.BY_ARITHMETIC,
        batch_norm.by_constants(wide=True),
        batch_norm.BY_ARITHMETIC,
    ),
    products.REWRITES,
    (slicing.SPLIT_BY_SLICES,),
    rounding.SIGN_BY_WHERE,
    division.TRUNCATED,
    shifts.REWRITES,
    extrema.SEPARATE_POSITION,
    powers.IN_DOMAIN,
    # on Ethos-U55 and U65, Vela reverses only the second and the third last dimension
    (slicing.STRIDED_SLICE_BY_GROUPS, gather.FLIP_OF_MIDDLE),
    quantized.REWRITES,
    (QUANTIZE_CHANNELS,),
    padding.BY_SLICES,
    (shape.PERMUTE_JOINED, shape.PERMUTE_HALVES),
    (index_put.PUT_ONE_VALUE, scatter.SCATTER_ONE_VALUE),
    channels_last.REWRITES,
    (each for each in itertools.chain.from_iterable(SHARED.values()) if each.target not in _COMPLETE),
)

WITHOUT_INTEGERS: Final[Rewrites] = rewrites(
    integers_by_floats.REWRITES, itertools.chain.from_iterable(REWRITES.values())
)
"""For specifications without the profile INT."""
