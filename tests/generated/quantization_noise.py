# SPDX-License-Identifier: Apache-2.0
"""Noise of the size of quantization steps, in each value of a module."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.generated.examples import Call
from tests.generated.expected import copied, eager_results
from tests.generated.program import Program, is_constant, module
from tests.generated.quantized_parts import parts_of
from tests.generated.rounding import EXACT

# Noise is uniform, in quantization steps of either sign: operators inside of others, as in a norm, quantize,
# too.
_STEPS: Final = 2.0
# The least range of an activation, see `quantize.specs`.
_LEAST_WIDTH: Final = 255 * 2.0**-24
_LARGE: Final = 1e18
# Noise of copies: a rounding.
_ROUNDING: Final = 0.5
# Copies of values that have one scale with the result: the first of these operands, and the noise.
_FILLS: Final = {
    **dict.fromkeys(
        ("constant_pad_nd", "index_fill", "masked_fill", "scatter", "threshold", "where"), (0, _STEPS)
    ),
    "heaviside": (1, _ROUNDING),
}
_JOINS: Final = frozenset({"cat", "stack"})
_EQUALITIES: Final = frozenset({"eq", "ne", "isin"})
# Writes to a part of a tensor of values that get its scale.
_WRITES: Final = frozenset({"copy_", "fill_"})
# Operators that raise for values beyond bounds, which the parts that are quantized do not.
_BOUNDS: Final = {"binary_cross_entropy": (0.0, 1.0)}


class QuantizationNoise(TorchDispatchMode):
    """Adds noise to results of operators that are not copies.

    Args:
        count: number of quantized values in the range of a value.
        widths: number of the value in a call -> the width of its range over all calls; filled without a seed.
        seed: of the noise; None to add none, and to fill `widths`, and 0 to round values only.
    """

    def __init__(self, count: float, widths: dict[int, float], seed: int | None) -> None:
        super().__init__()
        self._count, self._widths, self._seed = count, widths, seed
        self._random = torch.Generator().manual_seed(seed or 0)
        self.number = 0
        self.is_large = False  # whether squares of values overflow, which eager mode avoids in part

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in _BOUNDS and self._seed is not None:
            args = (*(each.clamp(*_BOUNDS[name]) for each in args[:2]), *args[2:])
        if parts := parts_of(func, args, kwargs or {}):
            return self._by_parts(parts, func, args, kwargs or {})
        is_part = name in _WRITES and args[0]._is_view()
        before = _width(args[0]._base) if is_part else 0.0
        result = func(*args, **(kwargs or {}))
        if name in _EQUALITIES and isinstance(args[0], Tensor) and args[0].is_floating_point():
            return result if "invert" in (kwargs or {}) else self._nearly(name, result, *args[:2])
        if "empty" in name:
            return result  # any values, which other calls overwrite
        if name == "lift_fresh":
            return self.noisy(result, steps=_ROUNDING)  # a constant that the program writes as numbers
        if is_part:
            width = max(before, _width(result._base))
            result.copy_(self.noisy(result, width, steps=_ROUNDING))
            return result
        if name in _JOINS and not all(each.is_floating_point() for each in args[0]):
            return self.noisy(result, steps=_ROUNDING)  # integers have the scale of the floats
        is_copy = name in EXACT or name.rstrip("_") in EXACT or func.is_view
        fill = _FILLS.get(name.rstrip("_"))
        if is_copy and fill is None:
            return result
        if func._schema.is_mutable:
            if isinstance(result, Tensor):
                result.copy_(self.noisy(result))
            return result
        first, steps = fill or (len(args), _STEPS)
        width = max((_width(each) for each in args[first:] if isinstance(each, Tensor)), default=0.0)
        return pytree.tree_map(lambda value: self.noisy(value, width, steps=steps), result)

    def _by_parts(
        self, parts: Callable[..., Tensor], func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Returns the result of a call with noise in values inside; without noise, fills their widths."""
        found = parts(self.noisy, *args)
        if func._schema.is_mutable:
            return func(*args) if self._seed is None else args[0].copy_(found)
        result = func(*args, **kwargs)
        if self._seed is None:
            return result
        return found if isinstance(result, Tensor) else (found, *result[1:])

    def _nearly(self, name: str, result: Tensor, x: Tensor, y: Any) -> Tensor:
        """Returns the result of a comparison in which values are equal that rounding may make equal.

        If any equal a number without noise, as those of a mask and 1, quantization keeps that.
        """
        others = torch.as_tensor(y).to(x.dtype)
        others = others.flatten() if name == "isin" else others
        distances = ((x[..., None] if name == "isin" else x) - others).abs()
        if name == "isin":
            distances = distances.amin(-1) if distances.shape[-1] else torch.full_like(x, math.inf)
        self.number += 1
        if self._seed is None:
            is_exact = not isinstance(y, Tensor) and bool((distances == 0).any())
            self._widths[self.number] = max(
                self._widths.get(self.number, 0.0), 0.0 if is_exact else _width(x)
            )
            return result
        if self._seed % 2 == 0:
            return result
        near = distances <= _STEPS * self._widths.get(self.number, 0.0) / self._count
        return result & ~near if name == "ne" else result | near

    def noisy(
        self, value: Any, least_width: float = 0.0, *, steps: float = _STEPS, is_bounded: bool = False
    ) -> Any:
        """Returns a value with noise, or unchanged.

        Args:
            value: the value.
            least_width: that of other values with the same scale.
            steps: noise in quantization steps of either sign.
            is_bounded: whether larger values, also infinite ones, become the largest of the range.
        """
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.numel() == 0:
            return value
        self.number += 1
        if self._seed is None:
            width = max(_width(value), least_width)
            self._widths[self.number] = max(self._widths.get(self.number, 0.0), width)
            self.is_large |= not width < _LARGE
            return value
        share = 2 * torch.rand(value.shape, generator=self._random) - 1
        width = max(self._widths.get(self.number, 0.0), _LEAST_WIDTH)
        step = width / self._count
        if not math.isfinite(step):
            return value
        value = value.clamp(-width, width) if is_bounded else value
        # Exact zeros are among the results, which norms of order 0 and conditions tell from other values.
        noise = steps * share if self._seed else 0.0
        return ((value / step + noise).round() * step).to(value.dtype)


def _width(value: Tensor) -> float:
    if not value.is_floating_point() or value.numel() == 0:
        return 0.0
    return float(value.max().clamp_min(0) - value.min().clamp_max(0))


def plain_results(
    program: Program | None,
    buffers: Mapping[str, Tensor],
    calls: Sequence[Call],
    modules: Mapping[str, torch.nn.Module] | None = None,
    mode: QuantizationNoise | None = None,
) -> list[list[Any]]:
    """Returns for each call the results in eager mode, then the inputs after it.

    Args:
        program: is made from its source; None to run `modules`.
        buffers: its constants and initial state.
        calls: the calls.
        modules: method -> the module that is it.
        mode: adds noise.
    """
    made = module(program, {name: tensor.clone() for name, tensor in buffers.items()}) if program else None
    results = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            inputs = [tensor.clone() for tensor in call.inputs]
            run = getattr(made, call.method) if modules is None else modules[call.method]
            if mode is None:
                found = run(*inputs)
            else:
                mode.number = 0
                inputs = [mode.noisy(tensor) for tensor in inputs]
                with mode:
                    found = run(*inputs)
            results.append([copied(leaf) for leaf in [*pytree.tree_leaves(found), *inputs]])
    return results


def noisy_results(
    program: Program,
    buffers: Mapping[str, Tensor],
    calls: Sequence[Call],
    activations: float,
    weights: float,
    runs: int,
) -> list[list[float]]:
    """Returns for each value of `plain_results` the least ratio in dB that runs with noise have.

    Args:
        program: the program.
        buffers: its constants and initial state.
        calls: its calls.
        activations: number of quantized values of activations.
        weights: number of quantized values of constants.
        runs: number of runs.
    """
    widths: dict[int, float] = {}
    mode = QuantizationNoise(activations, widths, None)
    exact = plain_results(program, buffers, calls, mode=mode)
    if mode.is_large:
        return [[-math.inf] * len(call) for call in exact]
    least = _of_copies(exact, [call.method for call in calls], min(activations, weights))
    # eager mode's own kernels may be inexact: `isin` finds integers that are equal in float32
    if wide := eager_results(program, buffers, [*calls], wide=True):
        _lower(least, exact, wide)
    for seed in range(runs):
        random = torch.Generator().manual_seed(seed)
        own = {
            name: value + _noise(value, weights if is_constant(name) else activations, random)
            if value.is_floating_point() and value.numel()
            else value
            for name, value in buffers.items()
        }
        try:
            found = plain_results(program, own, calls, mode=QuantizationNoise(activations, widths, seed))
        except (IndexError, RuntimeError):  # positions that are computed from values with noise
            return [[-math.inf] * len(call) for call in exact]
        _lower(least, exact, found)
    return least


def _lower(
    least: Sequence[list[float]], exact: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]
) -> None:
    """Lowers ratios to those of other results, in place."""
    for floors, values, results in zip(least, exact, found, strict=True):
        for i, (value, result) in enumerate(zip(values, results, strict=True)):
            if isinstance(value, Tensor):
                floors[i] = min(floors[i], signal_to_noise(value, result))


def _of_copies(exact: Sequence[Sequence[Any]], methods: Sequence[str], count: float) -> list[list[float]]:
    """Returns the ratio of values that are quantized once: state has one range in all calls of a method."""
    widths: dict[tuple[str, int], float] = {}
    for method, call in zip(methods, exact, strict=True):
        for i, value in enumerate(call):
            if isinstance(value, Tensor):
                widths[method, i] = max(widths.get((method, i), 0.0), _width(value))
    return [
        [_of_copy(value, widths.get((method, i), 0.0) / count) for i, value in enumerate(call)]
        for method, call in zip(methods, exact, strict=True)
    ]


def _of_copy(value: Any, step: float) -> float:
    if not isinstance(value, Tensor):
        return -math.inf
    error = value.numel() * step**2 / 12
    signal = float(value.double().square().sum()) if value.is_floating_point() else 0.0
    # 3 dB, as rounding errors of few values may be larger than most
    return 10 * math.log10(signal / error) - 3 if 0 < error < math.inf and 0 < signal < math.inf else math.inf


def _noise(value: Tensor, count: float, random: torch.Generator) -> Tensor:
    share = 2 * torch.rand(value.shape, generator=random) - 1
    return (2 * value.abs().max() / count * share).to(value.dtype)


def signal_to_noise(exact: Tensor, found: Tensor) -> float:
    """Returns the ratio in dB of a value and of a difference from it, the least if that is not finite."""
    if exact.numel() == 0 or not exact.is_floating_point():
        return math.inf if torch.equal(exact, found) else -math.inf
    if not bool(exact.isfinite().all()):
        return -math.inf
    error = float((exact.double() - found.double()).square().sum())
    signal = float(exact.double().square().sum())
    return (
        math.inf
        if error == 0
        else 10 * math.log10(max(signal, 1e-30) / error)
        if error < math.inf
        else -math.inf
    )
