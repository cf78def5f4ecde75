# SPDX-License-Identifier: Apache-2.0
"""Results of a program in eager mode, and how far from them another right implementation may be.

An ill-conditioned program amplifies the rounding of its first operations to any size, and a comparison
or a rounding turns a difference of one bit into another result. So a program is run several times with
each rounding replaced by a random one, of the dtype's own size: where results differ between these runs,
they may differ from eager mode. It is also run in float64, as eager mode's own kernels may be inexact.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from delegatec.program.kernels.limits import FLOAT64_IN_FLOAT32
from tests.generated.program import Program, module

EAGER_ERRORS: Final = (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError)
_RUNS: Final = 6
_EPSILON32: Final = torch.finfo(torch.float32).eps
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
# Sums of numbers with few digits are exact in any order.
_PLAIN_SUMS_NAMES: Final = (
    "sum mean prod nansum cumsum cumprod mm bmm addmm addmv addr addbmm baddbmm dot mv convolution"
    " linear vdot scatter_add index_add einsum index_put avg_pool2d avg_pool3d avg_pool1d col2im"
    " remainder fmod floor_divide div lerp addcmul addcdiv _embedding_bag _embedding_bag_forward_only"
    " scatter_reduce"
)
# Results of these depend on the order of their terms, so that their operands are perturbed, too.
_SUMS_NAMES: Final = (
    "var var_mean std std_mean norm linalg_vector_norm logsumexp _softmax _log_softmax"
    " native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit_no_training"
    " _adaptive_avg_pool2d adaptive_avg_pool1d upsample_bilinear2d upsample_bicubic2d upsample_linear1d"
    " upsample_trilinear3d _cdist_forward _euclidean_dist logcumsumexp _trilinear _fft_r2c _fft_c2c"
    " _fft_c2r _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math"
    " grid_sampler_2d linalg_solve_triangular _linalg_solve_ex linalg_inv_ex _linalg_det"
    " linalg_cholesky_ex cdist matrix_exp linalg_matrix_exp dist _upsample_bilinear2d_aa"
    " _upsample_bicubic2d_aa _pdist_forward"
)
_EXACT: Final = frozenset(_EXACT_NAMES.split())
# The error of the mean is divided by the deviation.
_MOMENTS: Final = frozenset({"native_layer_norm", "native_group_norm", "native_batch_norm"})
_QUOTIENTS: Final = frozenset({"fmod", "remainder", "floor_divide", "div"})
# The series of eager mode has an error of that size, also in float64.
_MATRIX_EXP: Final = 1e-11
_PLAIN_SUMS: Final = frozenset(_PLAIN_SUMS_NAMES.split())
_SUMS: Final = frozenset(_SUMS_NAMES.split())


@dataclass(frozen=True)
class Value:
    """A result in eager mode.

    Attributes:
        value: the result.
        exact: the result of the program in float64, in the dtype of the result; None if there is none.
        tolerance: the largest permitted difference of each element, in float64.
        free: elements that may have any value, because a rounding decides between very different ones.
    """

    value: Any
    exact: Tensor | None
    tolerance: Tensor | None
    free: Tensor | None


class _RandomRounding(TorchDispatchMode):
    """Replaces roundings by random ones.

    Args:
        seed: of the roundings.
        least: the smallest relative error; a coarser dtype has its own.
    """

    def __init__(self, seed: int, least: float) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(seed)
        # The first two runs round everything up, or down: a comparison of equal numbers has both results.
        self._direction = {0: 1.0, 1: -1.0}.get(seed)
        self._least = least
        self.largest = 0.0
        self.is_coarse = False  # whether it calls a kernel that computes float64 in float32
        self.smallest = 1.0
        self.is_finite = True  # whether all results of kernels are
        self.fits_int32 = True  # likewise
        self.pools_finite = True  # whether no max pool is minus infinity

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        is_write = func._schema.is_mutable
        # the pool over three dimensions is one over two of them and then over the third
        is_coarse = func in FLOAT64_IN_FLOAT32 or name == "_adaptive_avg_pool3d"
        least = _EPSILON32 if is_coarse else self._least
        self.is_coarse |= is_coarse
        if name in _QUOTIENTS:
            args = _floats(args)
        if (name in _SUMS or name in _PLAIN_SUMS) and not is_write:
            change = partial(self.rounded, least=least, keeps_exact=name in _PLAIN_SUMS)
            args, kwargs = pytree.tree_map(change, (args, kwargs))
        result = func(*args, **kwargs)
        self.is_finite &= is_finite([args, result])
        self.fits_int32 = self.fits_int32 and fits_int32([args, result])
        if "max_pool" in name:
            self.pools_finite &= not any(bool((each == -math.inf).any()) for each in pytree.tree_leaves(result))
        if name in ("pow", "pow_") and isinstance(args[1], Tensor):
            result = self._far_powers(result, *args)
        if "matrix_exp" in name:
            least = max(least, _MATRIX_EXP)
        if name in _MOMENTS and result[1].numel():
            lost = (result[1].double() * result[2].double()).abs().nan_to_num(0, 0, 0).max()
            least = max(least, min(4 * torch.finfo(result[1].dtype).eps * float(lost), 1.0))
        if name in _EXACT or name.rstrip("_") in _EXACT or func.is_view:
            return result
        if is_write:
            if isinstance(result, Tensor) and result.is_floating_point() and result.numel():
                result.copy_(self.rounded(result, least))
            return result
        return pytree.tree_map(partial(self.rounded, least=least), result)

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
        """Returns a tensor with a random relative error, of `least` or its dtype; exact numbers may stay."""
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
        factor = 1 + error * (share if self._direction is None else share.abs() * self._direction)
        noisy = (value.double() * factor).to(value.dtype)
        if not keeps_exact:
            return noisy
        is_exact = (value * 64 == (value * 64).round()) & (value.abs() < 1 / error)
        # zeros of decompositions may have either sign
        sign = 1 - 2 * torch.randint(0, 2, value.shape, generator=self._random)
        return torch.where(value == 0, value * sign, torch.where(is_exact, value, noisy))


def is_finite(values: Any) -> bool:
    """Returns whether a tree of tensors contains neither NaN nor an infinity."""
    leaves = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    return all(bool(leaf.isfinite().all()) for leaf in leaves if leaf.is_floating_point())


def fits_int32(values: Any) -> bool:
    """Returns whether the integers in a tree of tensors are numbers of int32."""
    leaves = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
    wide = [leaf for leaf in leaves if leaf.dtype is torch.int64 and leaf.numel()]
    limits = torch.iinfo(torch.int32)
    return all(limits.min <= int(leaf.min()) and int(leaf.max()) <= limits.max for leaf in wide)


@dataclass(frozen=True)
class Expected:
    """The results of the calls of a program.

    Attributes:
        calls: for each call, its results.
        fits_float16: whether intermediate results, and their squares, are numbers of float16.
        is_finite: whether neither results nor intermediate ones contain NaN or an infinity.
        fits_int32: whether all integers are numbers of int32.
        pools_finite: whether no max pool is minus infinity.
    """

    calls: list[list[Value]]
    fits_float16: bool
    is_finite: bool
    fits_int32: bool
    pools_finite: bool


def expected(
    program: Program,
    buffers: Mapping[str, Tensor],
    calls: list[list[Tensor]],
    least: float = 0.0,
) -> Expected:
    """Runs a program in eager mode.

    Args:
        program: the program.
        buffers: its constants and its initial state.
        calls: the inputs of each call; state lasts from one to the next.
        least: relative error of each operation, if it is more than that of the dtypes.
    """
    plain = _run(program, buffers, calls, wide=False)
    wide = _run(program, buffers, calls, wide=True)
    coarse = least
    noisy, modes = [], []
    for seed in range(_RUNS):
        with _RandomRounding(seed, least) as mode:
            # a delegate rounds its inputs, too
            rounded = partial(mode.rounded, least=least) if least else torch.clone
            own = {name: rounded(tensor) for name, tensor in buffers.items()}
            inputs = [[rounded(tensor) for tensor in call] for call in calls]
            noisy.append(_run(program, own, inputs, wide=False))
        coarse = max(coarse, _EPSILON32 if mode.is_coarse else 0.0)
        # sums of dynamic sizes are computed in float32
        if any(each.dynamic for each in program.inputs):
            coarse = max(coarse, _EPSILON32)
        assert noisy[-1] is not None
        modes.append(mode)
    assert plain is not None
    results = []
    for c, call in enumerate(plain):
        values = []
        for i, value in enumerate(call):
            exact = wide[c][i] if wide is not None and i < len(wide[c]) else None
            values.append(_value(value, exact, [run[c][i] for run in noisy if run is not None], coarse))
        results.append(values)
    return Expected(
        results,
        all(mode.largest < 150 and mode.smallest > 1e-4 for mode in modes),
        all(mode.is_finite for mode in modes),
        all(mode.fits_int32 for mode in modes),
        all(mode.pools_finite for mode in modes),
    )


def _run(
    program: Program, buffers: Mapping[str, Tensor], calls: list[list[Tensor]], wide: bool
) -> list[list[Any]] | None:
    """Returns the results of each call; None if eager mode rejects float64."""
    widen = _widened if wide else torch.clone
    own = {name: widen(tensor) for name, tensor in buffers.items()}
    results = []
    try:
        torch.set_default_dtype(torch.float64 if wide else torch.float32)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = module(program, own, wide)
            for call in calls:
                inputs = [widen(tensor) for tensor in call]
                out = pytree.tree_leaves(made(*inputs))
                results.append([leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in out])
    except EAGER_ERRORS:
        if not wide:
            raise
        return None
    finally:
        torch.set_default_dtype(torch.float32)
    return results


def _floats(args: Sequence[Any]) -> list[Any]:
    """Converts integers to the dtype of the other operand, so that they are rounded, too."""
    dtypes = [each.dtype for each in args if isinstance(each, Tensor) and each.is_floating_point()]
    return [each.to(dtypes[0]) if isinstance(each, Tensor) and dtypes else each for each in args]


def _widened(value: Tensor) -> Tensor:
    return value.double() if value.is_floating_point() else value.clone()


def _value(value: Any, exact: Any, noisy: list[Any], least: float) -> Value:
    if not isinstance(value, Tensor):
        return Value(value, None, None, None)
    if isinstance(exact, Tensor) and exact.shape == value.shape:
        exact = exact.to(value.dtype) if exact.is_floating_point() or exact.dtype == value.dtype else None
    else:
        exact = None
    if not value.is_floating_point():
        free = torch.zeros_like(value, dtype=torch.bool)
        for run in noisy:
            free |= run != value
        if exact is not None:
            free |= exact != value
        return Value(value, exact, torch.zeros(value.shape, dtype=torch.float64), free)
    plain = value.double()
    spread = torch.zeros_like(plain)
    free = torch.zeros_like(plain, dtype=torch.bool)
    for run in [*noisy, *([exact] if exact is not None else [])]:
        other = run.double()
        both = other.isfinite() & plain.isfinite()
        free |= ~both & (other != plain) & ~(other.isnan() & plain.isnan())
        spread = torch.maximum(spread, torch.where(both, (other - plain).abs(), 0.0))
    finfo = torch.finfo(value.dtype)
    size = torch.where(plain.isfinite(), plain.abs(), 0.0)
    error = max(finfo.eps, least)
    mean = float(spread.mean()) if spread.numel() else 0.0
    tolerance = 16 * spread + 4 * mean + 8 * error * size + 8 * finfo.smallest_normal + 1e-7 * error
    if least:
        # such kernels lose the digits that the mean and the numbers have in common
        tolerance = tolerance + (1e-4 if value.dtype is torch.float64 else 1e-6)
    return Value(value, exact, tolerance, free | (tolerance > 0.5 * size + 0.5))


def difference(result: Any, wanted: Value) -> str:
    """Returns how a result differs from that of eager mode; "" if it does not."""
    value = wanted.value
    if not isinstance(value, Tensor) or not isinstance(result, Tensor):
        same = repr(result) == repr(value) if not isinstance(value, Tensor) else False
        return "" if same else f"{result!r} for {value!r}"
    if result.shape != value.shape:
        return f"shape {tuple(result.shape)} for {tuple(value.shape)}"
    if value.numel() == 0:
        return ""
    if result.dtype != value.dtype:
        return f"{result.dtype} for {value.dtype}"
    if not result.is_contiguous():
        return f"strides {result.stride()}"
    assert wanted.tolerance is not None and wanted.free is not None
    if value.is_floating_point():
        a, e = result.double(), value.double()
        near = (a - e).abs() <= wanted.tolerance
        same = (a == e) | (a.isnan() & e.isnan()) | (near & a.isfinite() & e.isfinite())
    else:
        same = result == value
    bad = ~(same | wanted.free)
    if not bool(bad.any()):
        return ""
    position = tuple(int(each) for each in bad.nonzero()[0])
    where = f"{int(bad.sum())} of {bad.numel()} elements, at {list(position)}"
    return f"{where} {result[position].item()!r} for {value[position].item()!r}"
