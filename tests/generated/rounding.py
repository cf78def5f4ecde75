# SPDX-License-Identifier: Apache-2.0
"""Random rounding of results, and notes of values that kernels of delegates do not support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from delegatec.program.kernels.limits import FLOAT64_IN_FLOAT32

EPSILON32: Final = torch.finfo(torch.float32).eps
# The pool over three dimensions is one over two of them and then over the third.
_COARSE: Final = {func._schema.name.removeprefix("aten::") for func in FLOAT64_IN_FLOAT32} | {
    "_adaptive_avg_pool3d"
}
# Results of these are elements of their operands, or exact.
_EXACT_NAMES: Final = (
    "abs alias as_strided cat ceil clamp clamp_max clamp_min clone constant_pad_nd copy_ detach"
    " diag_embed diagonal embedding expand fill_ flip floor frac full_like gather hardtanh index"
    " index_copy index_fill index_put index_select isnan kthvalue lift_fresh masked_fill masked_fill_"
    " masked_scatter max max_pool2d_with_indices maximum median min minimum amax amin aminmax neg"
    " new_full nan_to_num ones_like permute pixel_shuffle reflection_pad1d reflection_pad2d relu relu_"
    " repeat replication_pad1d replication_pad2d reshape roll round scatter select select_scatter slice"
    " slice_scatter sign sort split squeeze stack t take threshold topk transpose tril triu trunc unfold"
    " unsqueeze upsample_nearest1d upsample_nearest2d upsample_nearest3d view where zeros_like zero_"
    " cummax cummin _reshape_copy _unsafe_view sgn fmax fmin take_along_dim logical_not put unbind rot90"
    " real imag"
)
# Sums of values with few digits are exact in any order.
_PLAIN_SUMS_NAMES: Final = (
    "sum prod nansum cumsum cumprod mm bmm addmm addmv addr addbmm baddbmm dot mv convolution"
    " linear vdot scatter_add index_add einsum index_put avg_pool2d avg_pool3d avg_pool1d col2im"
    " remainder fmod floor_divide div lerp addcmul addcdiv _embedding_bag _embedding_bag_forward_only"
    " scatter_reduce"
)
# Results of these depend on the order of their terms, so that their operands are perturbed, too.
_SUMS_NAMES: Final = (
    "mean var var_mean std std_mean norm linalg_vector_norm logsumexp _softmax _log_softmax"
    " native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit_no_training"
    " _adaptive_avg_pool2d adaptive_avg_pool1d upsample_bilinear2d upsample_bicubic2d upsample_linear1d"
    " upsample_trilinear3d _cdist_forward _euclidean_dist logcumsumexp _trilinear _fft_r2c _fft_c2c"
    " _fft_c2r _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math"
    " grid_sampler_2d linalg_solve_triangular _linalg_solve_ex linalg_inv_ex _linalg_det"
    " linalg_cholesky_ex cdist matrix_exp linalg_matrix_exp dist _upsample_bilinear2d_aa"
    " _upsample_bicubic2d_aa _pdist_forward affine_grid_generator logaddexp logaddexp2"
)
EXACT: Final = frozenset(_EXACT_NAMES.split())
# The error of the mean is divided by the deviation.
_MOMENTS: Final = frozenset({"native_layer_norm", "native_group_norm", "native_batch_norm"})
_SELECTIONS: Final = frozenset({"nonzero", "masked_select", "unique_consecutive", "_unique2", "unique_dim"})
# Of three factors and more.
_PRODUCTS: Final = frozenset({"prod", "_trilinear"})
# Zeros of either sign are equal, so that any of them may be the result.
_ORDERED_NAMES: Final = (
    "topk sort kthvalue median max min maximum minimum amax amin aminmax fmax fmin cummax cummin"
)
# Eager mode sums their squares in float64: results fit in float32 where the squares do not.
_ROOTS: Final = frozenset({"std", "std_mean", "renorm"})
# Of complex numbers, eager mode scales the parts before it squares them.
_COMPLEX_ROOTS: Final = frozenset({"abs", "sgn"})
# Eager mode adds each element's distance from the mean of those before: two infinities have the mean NaN.
_RUNNING_MEANS: Final = frozenset({"var_mean", "std_mean"})
# Integers that some shaders compute in float32.
_SHORT_INTEGERS_NAMES: Final = (
    "add sub rsub sum nansum cumsum clamp clamp_min clamp_max hardtanh relu threshold minimum maximum amin"
    " amax aminmax min max fmin fmax cummin cummax mm addmm bmm baddbmm dot mv"
)
_SHORT_INTEGERS: Final = frozenset(_SHORT_INTEGERS_NAMES.split())
# Kernels multiply each term by alpha, or their sum: with an infinite one, NaN or an infinity.
_SCALED_SUMS: Final = frozenset({"addmm", "addmv", "addr", "addbmm", "baddbmm"})
# Delegates compute them by logarithms or reciprocals, also roots that are exact.
_POWERS: Final = frozenset({"pow", "float_power", "sqrt", "rsqrt"})
_QUOTIENTS: Final = frozenset({"fmod", "remainder", "floor_divide", "div"})
# The series of eager mode has an error of that size, also in float64.
_MATRIX_EXP: Final = 1e-11
_ORDERED: Final = frozenset(_ORDERED_NAMES.split())
_PLAIN_SUMS: Final = frozenset(_PLAIN_SUMS_NAMES.split())
_SUMS: Final = frozenset(_SUMS_NAMES.split())


class RandomRounding(TorchDispatchMode):
    """Replaces roundings by random ones.

    Args:
        seed: of the roundings.
        least: the smallest relative error; a coarser dtype has its own.
    """

    def __init__(self, seed: int, least: float) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(seed)
        # The first two runs round everything up, or down: a comparison of equal values has both results.
        self._direction = {0: 1.0, 1: -1.0}.get(seed)
        self._scales_sums = seed % 2 == 1
        self._least = least
        self.largest = 0.0
        self.is_coarse = False  # whether it may compute float64 in float32, as sums of dynamic sizes do
        self.smallest = 1.0
        self.is_finite = True  # whether all results of kernels are
        self.fits_int32 = True  # likewise
        self.maxima_finite = True  # whether no max pool is minus infinity, and no softmax NaN
        self.groups_finite = True  # whether the operands of convolutions with groups are finite
        self.sums_fit = True  # whether sums of a hundred integers fit in int32
        self.squares_fit = True  # whether the squares in deviations fit in float32
        self.short_integers = True  # whether float32 holds the integers in sums and extrema
        self.is_normal = True  # whether no result is subnormal

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name.rstrip("_") == "scatter" and "reduce" in func._overloadname:
            name = name.replace("scatter", "scatter_reduce")
        is_write = func._schema.is_mutable
        is_coarse = name in _COARSE and args[0].dtype == torch.float64
        least = EPSILON32 if is_coarse else self._least
        self.is_coarse |= is_coarse or _depends_on_data(name, args)
        if name in _QUOTIENTS:
            args = _floats(args)
        if (name in _SUMS or name in _PLAIN_SUMS) and not is_write:
            change = partial(self.rounded, least=least, keeps_exact=name in _PLAIN_SUMS)
            args, kwargs = pytree.tree_map(change, (args, kwargs))
        if name == "pow" and isinstance(args[0], Tensor) and not isinstance(args[1], Tensor):
            # the error of a logarithm is multiplied by the exponent
            args = (self.rounded(args[0], least, keeps_exact=False), *args[1:])
        before = pytree.tree_map_only(Tensor, torch.clone, args) if name == "pow_" else args
        result = func(*args, **kwargs)
        self._note_limits(name.rstrip("_"), args, result)
        self.is_finite &= is_finite([args, result])
        self.fits_int32 = self.fits_int32 and fits_int32([args, result])
        if "max_pool" in name:
            self.maxima_finite &= not any(
                bool(((each == -math.inf) | each.isnan()).any()) for each in pytree.tree_leaves(result)
            )
        if name == "convolution" and args[8] > 1:
            self.groups_finite &= is_finite([args])
        self.sums_fit = self.sums_fit and fits([args, result], torch.iinfo(torch.int32).max // 100)
        if name in _RUNNING_MEANS and self._scales_sums and not is_finite(args[0]):
            dims = list(args[1] or range(args[0].dim())) if len(args) > 1 else list(range(args[0].dim()))
            result = (result[0], args[0].mean(dims, keepdim=result[1].dim() == args[0].dim()))
        if name in ("_softmax", "_log_softmax"):
            self.maxima_finite &= not bool(result.isnan().any())
        if name in _PRODUCTS and self._scales_sums and result.is_floating_point():
            # in another order, a part may be infinite, and meet one that is zero
            largest = func(*pytree.tree_map_only(Tensor, lambda x: x.abs().clamp(min=1), args), **kwargs)
            result = torch.where(largest.isfinite(), result, math.nan)
        if name == "gelu" and self._scales_sums:
            # NaN in torch's vector code
            result = torch.where(args[0] == math.inf, args[0], result)
        if name in _SCALED_SUMS and self._scales_sums and not math.isfinite(kwargs.get("alpha", 1)):
            result = func(*args, beta=0) * kwargs["alpha"] + kwargs.get("beta", 1) * args[0]
        if name in ("pow", "pow_") and isinstance(args[1], Tensor):
            result = self._far_powers(result, *before)
        if name in _ORDERED and any(map(_has_negative_zero, args)):
            result = pytree.tree_map(self._of_any_zero, result)
        if "matrix_exp" in name:
            least = max(least, _MATRIX_EXP)
        if name in _MOMENTS and result[1].numel():
            lost = (result[1].double() * result[2].double()).abs().nan_to_num(0, 0, 0).max()
            least = max(least, min(4 * torch.finfo(result[1].dtype).eps * float(lost), 1.0))
        if name in EXACT or name.rstrip("_") in EXACT or func.is_view:
            return result
        change = partial(self.rounded, least=least, keeps_exact=name.rstrip("_") not in _POWERS)
        if is_write:
            if isinstance(result, Tensor) and result.is_floating_point() and result.numel():
                result.copy_(change(result))
            return result
        return pytree.tree_map(change, result)

    def _note_limits(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Notes values at the limits of the formats of delegates."""
        if name in _ROOTS or (name in _COMPLEX_ROOTS and args[0].is_complex()):
            size = args[0].abs().double()
            squares = size[size.isfinite()].square()
            self.squares_fit &= float(squares.sum()) < torch.finfo(torch.float32).max
        if name in _SHORT_INTEGERS:
            self.short_integers = self.short_integers and fits([args, result], 2**24)
        floats = [each for each in pytree.tree_leaves(result) if isinstance(each, Tensor)]
        self.is_normal = self.is_normal and not any(map(_has_subnormal, floats))

    def _far_powers(self, power: Tensor, base: Any, exponent: Tensor) -> Tensor:
        """Replaces powers of integers that float64, in which the kernel computes, does not hold."""
        if power.is_floating_point() or power.dtype is torch.bool:
            return power
        wide = base.double() if isinstance(base, Tensor) else float(base)
        largest = min(torch.iinfo(power.dtype).max, 2**53)
        is_far = ~(torch.pow(wide, exponent.double()).abs() <= largest)
        other = torch.randint(-100, 100, power.shape, generator=self._random).to(power.dtype)
        return power.copy_(torch.where(is_far, other, power))

    def rounded(self, value: Any, least: float, keeps_exact: bool = True) -> Any:
        """Returns a tensor with a random relative error, of `least` or its dtype; exact values may stay."""
        if not isinstance(value, Tensor) or value.numel() == 0:
            return value
        if value.is_complex():
            # each part has an error in the order of the absolute value
            error = max(2 * torch.finfo(value.dtype).eps, least)
            noise = torch.randn(value.shape, generator=self._random, dtype=torch.complex128)
            return (value + value.abs() * error * noise).to(value.dtype)
        if not value.is_floating_point():
            return value
        finite = value[value.isfinite()].abs()
        if finite.numel():
            self.largest = max(self.largest, float(finite.max()))
            nonzero = finite[finite > 0]
            if nonzero.numel():
                self.smallest = min(self.smallest, float(nonzero.min()))
        error = max(2 * torch.finfo(value.dtype).eps, least)
        share = 2 * torch.rand(value.shape, generator=self._random, dtype=torch.float64) - 1
        if self._direction is not None:
            share = (1 + share.abs()) / 2 * self._direction  # at least a bit
        factor = 1 + error * share
        noisy = (value.double() * factor).to(value.dtype)
        if not keeps_exact:
            return noisy
        is_exact = (value * 64 == (value * 64).round()) & (value.abs() < 1 / error)
        # zeros of decompositions may have either sign
        return torch.where(value == 0, self._of_any_zero(value), torch.where(is_exact, value, noisy))

    def _of_any_zero(self, value: Tensor) -> Tensor:
        """Replaces zeros by zeros of either sign."""
        if not value.is_floating_point():
            return value
        sign = 1 - 2 * torch.randint(0, 2, value.shape, generator=self._random)
        return torch.where(value == 0, value * sign, value)


def _has_negative_zero(value: Any) -> bool:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    return bool(((value == 0) & value.signbit()).any())


def _has_subnormal(value: Tensor) -> bool:
    if value.dtype is not torch.float32 or not value.numel():
        return False
    size = value.abs()
    return bool(((size > 0) & (size < torch.finfo(torch.float32).smallest_normal)).any())


def is_finite(values: Any) -> bool:
    """Returns whether a tree of tensors contains neither NaN nor an infinity."""
    leaves = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    return all(bool(leaf.isfinite().all()) for leaf in leaves if leaf.is_floating_point())


def _depends_on_data(name: str, args: Sequence[Any]) -> bool:
    """Whether a size of the result depends on values of the operands."""
    if name == "index":
        return any(isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    return name in _SELECTIONS


def fits_int32(values: Any) -> bool:
    """Returns whether the integers in a tree of tensors fit in int32."""
    return fits(values, torch.iinfo(torch.int32).max)


def fits(values: Any, largest: int) -> bool:
    """Returns whether the wide integers in a tree of tensors are at most so large, without their sign."""
    leaves = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    wide = [leaf for leaf in leaves if leaf.dtype in (torch.int64, torch.int32) and leaf.numel()]
    return all(~largest <= int(leaf.min()) and int(leaf.max()) <= largest for leaf in wide)


def _floats(args: Sequence[Any]) -> list[Any]:
    """Converts integers to the dtype of the other operand, so that they are rounded, too."""
    dtypes = [each.dtype for each in args if isinstance(each, Tensor) and each.is_floating_point()]
    return [each.to(dtypes[0]) if isinstance(each, Tensor) and dtypes else each for each in args]
