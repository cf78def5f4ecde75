# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of static lengths, as products with constant matrices of cosines and sines."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.complex.arithmetic import Rule
from delegatec.edge.complex.pair import Pair, Part, add, filled, real_dtype, sub
from delegatec.edge.complex.values import UnsupportedError, Values
from delegatec.edge.handles import describe_operator

aten = torch.ops.aten

# The matrices of a transform have twice the square of its length as elements.
LONGEST: Final = 4096

# The numbering of normalizations in `_fft_r2c` and similar operators: none, by the square root of the number
# of elements, by that number (ATen/native/SpectralOpsUtils.h).
_POWER: Final = {0: 0.0, 1: -0.5, 2: -1.0}


def transform(
    values: Values,
    b: Builder,
    node: Node,
    x: Pair,
    count: int,
    bins: int,
    *,
    forward: bool,
    scale: float = 1.0,
) -> Pair:
    """Returns the first `bins` frequencies of a transform along the last dimension.

    Args:
        values: receives the matrices.
        b: the builder.
        node: the call that is lowered.
        x: parts [..., count].
        count: number of elements.
        bins: number of frequencies.
        forward: whether the exponent is negative.
        scale: scale of the result.
    """
    cos, sin = _matrices(values, b, node, (count, bins), count, (scale, -scale if forward else scale))
    a, c = x
    return Pair(
        sub(b, _times(b, a, cos), _times(b, c, sin)),
        add(b, _times(b, a, sin), _times(b, c, cos)),
    )


def inverse_real(values: Values, b: Builder, node: Node, x: Pair, count: int, scale: float) -> Part:
    """Returns the real signal with the frequencies 0 to `count // 2`, along the last dimension.

    Imaginary parts that are zero for real signals are ignored.
    """
    bins = count // 2 + 1
    cos, sin = _matrices(values, b, node, (bins, count), count, (scale, -scale), mirrored=True)
    return add(b, _times(b, x.real, cos), _times(b, x.imag, sin))


def _times(b: Builder, x: Part, matrix: Node) -> Part:
    if isinstance(x, Node):
        return b.call(aten.matmul.default, x, matrix)
    assert x == 0.0
    return 0.0


def _matrices(
    values: Values,
    b: Builder,
    node: Node,
    sizes: tuple[int, int],
    count: int,
    scales: tuple[float, float],
    *,
    mirrored: bool = False,
) -> tuple[Node, Node]:
    """Returns cos and sin of 2 pi i k / count, times a scale.

    Args:
        values: receives the matrices.
        b: the builder.
        node: the call that is lowered.
        sizes: numbers of rows i and of columns k.
        count: number of elements of the transform.
        scales: scales of the cosines, and of the sines.
        mirrored: whether a row also represents the frequency count - i.
    """
    kind = real_dtype(dtype_of(node))

    def make(function: Any, scale: float) -> torch.Tensor:
        # the remainder preserves the precision of the angle
        turns = torch.outer(torch.arange(sizes[0]), torch.arange(sizes[1])) % count
        matrix: torch.Tensor = function(turns.to(torch.float64) * (2 * math.pi / count)) * scale
        if mirrored:
            matrix[1 : (count + 1) // 2] *= 2
        return matrix.to(kind)

    cos, sin = (
        values.constant(
            b,
            (function, sizes, count, scale, mirrored, kind),
            f"fourier.{function.__name__}_{sizes[0]}_{sizes[1]}",
            partial(make, function, scale),
            node,
        )
        for function, scale in zip((torch.cos, torch.sin), scales, strict=True)
    )
    return cos, sin


def known_length(values: Values, node: Node, count: Any) -> int:
    """Returns the length of a transform; raises UnsupportedError for unsupported ones."""
    if isinstance(count, int) and count <= LONGEST:
        return count
    what = f"{count} elements" if isinstance(count, int) else "a dynamic dimension"
    raise UnsupportedError(
        Diagnostic(
            "DC205",
            f"{describe_operator(node, values.origins)} is a Fourier transform over {what}",
            location=node.meta.get("source"),
            node=node.name,
            expected=f"a static length of at most {LONGEST} elements",
            help="split the transform, as torch.stft does, or compute it outside the model",
        )
    )


def _along(values: Values, b: Builder, node: Node, x: Pair, dim: int, rank: int, apply: Any) -> Any:
    """Applies `apply` to the parts with `dim` as the last dimension."""
    order = [d for d in range(rank) if d != dim] + [dim]
    if dim == rank - 1:
        return apply(x)
    moved = Pair(*(_permuted(b, part, order) for part in x))
    result = apply(moved)
    back = [order.index(d) for d in range(rank)]
    if isinstance(result, Pair):
        return Pair(*(_permuted(b, part, back) for part in result))
    return _permuted(b, result, back)


def _permuted(b: Builder, x: Part, order: list[int]) -> Part:
    return b.call(aten.permute.default, x, order) if isinstance(x, Node) else x


def _prepared(values: Values, b: Builder, node: Node) -> tuple[Pair, list[int], list[Any]]:
    """Returns parts, non-negative dimensions, and sizes of a transform."""
    source: Any = node.args[0]
    rank = len(shape_of(source))
    kind = real_dtype(dtype_of(node))
    real, imag = values.pair(source)
    if isinstance(imag, Node) or imag != 0.0:
        imag = filled(b, imag, shape_of(source), kind)
    x = Pair(filled(b, real, shape_of(source), kind), imag)
    return x, [d % rank for d in bind(node)["dim"]], list(shape_of(source))


def _factor(node: Node, sizes: list[int]) -> float:
    return math.pow(math.prod(sizes), _POWER[bind(node)["normalization"]])


def _all_along(
    values: Values, b: Builder, node: Node, x: Pair, dims: list[int], rank: int, counts: dict[int, int],
    *, forward: bool,
) -> Pair:  # fmt: skip
    for dim in dims:
        count = counts[dim]

        def apply(part: Pair, count: int = count) -> Pair:
            return transform(values, b, node, part, count, count, forward=forward)

        x = _along(values, b, node, x, dim, rank, apply)
    return x


def _c2c(values: Values, b: Builder, node: Node) -> Pair:
    x, dims, sizes = _prepared(values, b, node)
    return _both(values, b, node, x, dims, sizes, forward=bool(bind(node)["forward"]), onesided=False)


def _r2c(values: Values, b: Builder, node: Node) -> Pair:
    x, dims, sizes = _prepared(values, b, node)
    return _both(values, b, node, x, dims, sizes, forward=True, onesided=bool(bind(node)["onesided"]))


def _both(
    values: Values, b: Builder, node: Node, x: Pair, dims: list[int], sizes: list[Any],
    *, forward: bool, onesided: bool,
) -> Pair:  # fmt: skip
    """Transforms several dimensions, the last one first, which is halved for real numbers and scaled."""
    counts = {dim: known_length(values, node, sizes[dim]) for dim in dims}
    if not dims:
        return x
    scale = _factor(node, list(counts.values()))
    last = dims[-1]
    bins = counts[last] // 2 + 1 if onesided else counts[last]

    def apply(part: Pair) -> Pair:
        return transform(values, b, node, part, counts[last], bins, forward=forward, scale=scale)

    x = _along(values, b, node, x, last, len(sizes), apply)
    return _all_along(values, b, node, x, dims[:-1], len(sizes), counts, forward=forward)


def _c2r(values: Values, b: Builder, node: Node) -> Part:
    x, dims, sizes = _prepared(values, b, node)
    last = dims[-1]
    counts = {dim: known_length(values, node, sizes[dim]) for dim in dims[:-1]}
    count = known_length(values, node, bind(node)["last_dim_size"])
    scale = _factor(node, [*counts.values(), count])
    x = _all_along(values, b, node, x, dims[:-1], len(sizes), counts, forward=False)
    result: Part = _along(
        values, b, node, x, last, len(sizes), lambda part: inverse_real(values, b, node, part, count, scale)
    )
    return result


RULES: Final[dict[str, Rule]] = {"_fft_c2c": _c2c, "_fft_r2c": _r2c, "_fft_c2r": _c2r}
