# SPDX-License-Identifier: Apache-2.0
"""Table of the calls that the runtime's kernels do not support, or compute differently from eager mode.

`legalize` rewrites some of them, `check_kernels` rejects the rest, the documentation lists both, and
`tests/oracle/grid_test.py` compares the table with the runtime.

Source: measured with the stock runtime of ExecuTorch 1.4.1 (portable kernels), every operator, dtype and form
of arguments, compared with eager mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind

aten = torch.ops.aten

# Of a tensor in a program, for all kernels.
MAX_RANK: Final = 16
# Sizes are 32-bit integers in a `.pte`.
LARGEST_SIZE: Final = 2**31 - 1

_IN_FLOAT32: Final = {torch.float16: torch.float32, torch.bfloat16: torch.float32}

# Operator -> dtype of its operands -> dtype to compute in. Most of these kernels accumulate in the dtype of
# their operands, eager mode in float32: the error of a layer norm of 1024 float16 values is 100%.
# Products are 8 to 80 times faster in float32, conversions included; `linear` of one row stays.
# `logit` and the number in a tensor do not support 16-bit floats, and batch norm does not with float32
# parameters.
COMPUTED_IN: Final[dict[OpOverload, dict[torch.dtype, torch.dtype]]] = dict.fromkeys(
    (
        aten._local_scalar_dense.default,
        aten._native_batch_norm_legit.default,
        aten._native_batch_norm_legit.no_stats,
        aten._native_batch_norm_legit_no_training.default,
        aten.addmm.default,
        aten.avg_pool2d.default,
        aten.bmm.default,
        aten.convolution.default,
        aten.convolution_backward.default,
        aten.cumsum.default,
        aten.linear.default,
        aten.logit.default,
        aten.mm.default,
        aten.native_group_norm.default,
        aten.native_layer_norm.default,
        aten.scatter_add.default,
        aten.var.correction,
        aten.var.dim,
        aten.var_mean.correction,
    ),
    _IN_FLOAT32,
)


@dataclass(frozen=True)
class Limit:
    """The calls of an operator that its kernel supports.

    Attributes:
        holds: whether the kernel supports a call.
        expected: the supported calls.
        help: what to do about other calls.
    """

    holds: Callable[[Node], bool]
    expected: str
    help: str


def _mask_broadcasts(node: Node) -> bool:
    arguments = bind(node)
    x, mask = (arguments[name].meta["val"] for name in ("self", "mask"))
    missing = len(x.shape) - len(mask.shape)
    return missing >= 0 and all(
        wide == narrow or (isinstance(narrow, int) and narrow == 1)
        for wide, narrow in zip(x.shape[missing:], mask.shape, strict=True)
    )


def _one_or_two_dimensions(node: Node) -> bool:
    return len(bind(node)["weight"].meta["val"].shape) <= 4


def _is_static(node: Node) -> bool:
    return all(isinstance(size, int) for size in node.meta["val"].shape)


LIMITS: Final[dict[Any, Limit]] = {
    aten._upsample_bilinear2d_aa.default: Limit(
        _is_static,
        "a result of a static shape, as the kernel does not resize it",
        "leave its sizes static, or omit antialias",
    ),
    aten.convolution.default: Limit(
        _one_or_two_dimensions,
        "a convolution over one or two dimensions",
        "write it with supported operators, or delegate it to a backend that supports it",
    ),
    aten.masked_select.default: Limit(
        _mask_broadcasts,
        "a mask that is not larger than the tensor",
        "expand the tensor to the shape of the mask",
    ),
    round: Limit(
        lambda node: len(node.args) == 1,
        "rounding of a size to an integer",
        "multiply and divide by the power of ten around it",
    ),
}

# These compute float64 in float32.
FLOAT64_IN_FLOAT32: Final = frozenset(
    {
        aten._adaptive_avg_pool2d.default,
        aten._upsample_bilinear2d_aa.default,
        aten.upsample_bilinear2d.vec,
    }
)

_FAR_POWERS: Final = "powers of integers are rounded beyond 2^53, and do not wrap around"

# Known differences from eager mode that are not worked around.
DEVIATIONS: Final[dict[OpOverload, str]] = {
    **dict.fromkeys(FLOAT64_IN_FLOAT32, "float64 is computed in float32"),
    aten.fmod.Scalar: "integers beyond 2^53 are rounded",
    aten.gelu.default: "infinity for infinity; eager mode returns NaN in float32 and bfloat16",
    aten.pow.Scalar: _FAR_POWERS,
    aten.pow.Tensor_Tensor: _FAR_POWERS,
    aten.sum.dim_IntList: "integers beyond 2^53 are rounded; float64 of dynamic sizes is summed in float32",
}
