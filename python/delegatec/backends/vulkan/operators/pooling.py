# SPDX-License-Identifier: Apache-2.0
"""Pooling and resizing of images, channels packed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sympy import sympify
from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import BUFFER, CHANNELS
from delegatec.backends.vulkan.memory.sizes import shape_of
from delegatec.backends.vulkan.operators.row import Constraint, OperatorRow, operator_row, resizing
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import argument, rank_of
from delegatec.edge.symbols import is_dynamic

_IMAGES: Final = rank_of("self", (3, 4), "the runtime pools images.")
_BATCHES: Final = rank_of("input", (4,), "the runtime resizes images.")


def _pair(value: object, default: Sequence[int]) -> list[int]:
    given = [value] if isinstance(value, int) else list(value or default)  # type: ignore[call-overload]
    return given * 2 if len(given) == 1 else given


def _max_pool(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    size = _pair(bound["kernel_size"], ())
    windows = [
        size,
        _pair(bound["stride"], size),
        _pair(bound["padding"], ()),
        _pair(bound["dilation"], ()),
    ]
    args = [b.of(bound["self"]), *map(b.integers, windows), b.scalar(bool(bound["ceil_mode"]))]
    b.call("aten.max_pool2d_with_indices.default", *args, b.result(node))


def _avg_pool(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    size = _pair(bound["kernel_size"], ())
    windows = [size, _pair(bound["stride"], size), _pair(bound["padding"], ())]
    divisor = bound["divisor_override"]
    args = [
        b.of(bound["self"]),
        *map(b.integers, windows),
        b.scalar(bool(bound["ceil_mode"])),
        b.scalar(bool(bound["count_include_pad"])),
        b.null() if divisor is None else b.scalar(divisor),
    ]
    b.call("aten.avg_pool2d.default", *args, b.result(node))


def _resize(b: GraphBuilder, node: Node) -> None:
    """The runtime computes the scales from the sizes, or sizes that vary from the scales."""
    bound = bind(node)
    sizes, scales = b.integers(shape_of(node)[2:]), b.null()
    if is_dynamic(node.meta["val"].shape[2:]):
        sizes, scales = b.null(), b.doubles([float(scale) for scale in _ratios(node)])
    corners = [b.scalar(bool(bound["align_corners"]))] if "align_corners" in bound else []
    b.call(str(node.target), b.of(bound["input"]), sizes, *corners, scales, b.result(node))


def _ratios(node: Node) -> list[Any]:
    """Returns the ratios of the sizes of the result to those of the operand, as expressions."""
    shapes = zip(bind(node)["input"].meta["val"].shape[2:], node.meta["val"].shape[2:], strict=True)
    return [sympify(new) / sympify(old) for old, new in shapes]


def _dynamic_ratio(node: Node) -> str | None:
    if not is_dynamic((*node.meta["val"].shape[2:], *bind(node)["input"].meta["val"].shape[2:])):
        return None
    if bind(node).get("align_corners"):
        return "aligned corners"
    ratios = _ratios(node)
    return None if all(ratio.is_Integer for ratio in ratios) else f"ratios of {ratios}"


_SCALED: Final = resizing(
    "Dynamic image sizes have integer scale factors, and corners are not aligned: the runtime keeps other "
    "ratios of the largest sizes.",
    _dynamic_ratio,
)


def _not_a_multiple(node: Node, _: object) -> str | None:
    old, new = shape_of(bind(node)["input"])[2:], shape_of(node)[2:]
    if all(after % before == 0 for before, after in zip(old, new, strict=True)):
        return None
    return f"from {old[0]} x {old[1]} to {new[0]} x {new[1]}"


def _other_scales(node: Node, _: object) -> str | None:
    """The coordinates follow given scales rather than the sizes if the two differ."""
    bound = bind(node)
    scales = bound.get("scale_factors")
    if scales is None or bound.get("align_corners"):
        return None
    sizes = zip(shape_of(bound["input"])[2:], shape_of(node)[2:], scales, strict=True)
    return "scales that are not the ratio of the sizes" if any(a * s != b for a, b, s in sizes) else None


def _one_aligned(node: Node, _: object) -> str | None:
    is_one = bind(node).get("align_corners") and 1 in shape_of(node)[2:]
    return "aligned corners of one element" if is_one else None


def _sampled(node: Node, _: IsConstant) -> Sequence[Group]:
    bound = bind(node)
    return Group(CHANNELS, (bound["input"],), (0,)), Group(BUFFER, (bound["grid"],))


def _sampling(node: Node, _: object) -> str | None:
    bound = bind(node)
    wanted = {"interpolation_mode": 0, "padding_mode": 1, "align_corners": True}
    return next((f"{name} is {bound[name]}" for name, value in wanted.items() if bound[name] != value), None)


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row("max_pool2d_with_indices", tied(CHANNELS), FLOATS, _IMAGES, lower=_max_pool, resizes=()),
    operator_row(
        "avg_pool2d",
        tied(CHANNELS),
        FLOATS,
        _IMAGES,
        argument(
            "divisor_override",
            lambda value: value is None or value > 0,
            "divisor_override is positive: the runtime ignores others.",
        ),
        lower=_avg_pool,
        resizes=(),
    ),
    operator_row(
        "upsample_nearest2d.vec",
        tied(CHANNELS),
        FLOATS,
        _BATCHES,
        Constraint(
            "argument",
            "Scale factors are integers: the runtime rounds other coordinates differently.",
            _not_a_multiple,
        ),
        lower=_resize,
        preserved=True,
        resizes=(_SCALED,),
    ),
    operator_row(
        "upsample_bilinear2d.vec",
        tied(CHANNELS),
        FLOATS,
        _BATCHES,
        Constraint(
            "argument",
            "scale_factors are the ratios of the sizes: the runtime computes coordinates from the sizes.",
            _other_scales,
        ),
        Constraint(
            "size",
            "A size of the result is at least 2 for align_corners: the runtime divides by the size less one.",
            _one_aligned,
        ),
        lower=_resize,
        preserved=True,
        resizes=(_SCALED,),
    ),
    operator_row(
        "grid_sampler_2d",
        _sampled,
        FLOATS,
        Constraint(
            "argument",
            "The mode is bilinear, with border padding and aligned corners: the runtime has no other.",
            _sampling,
        ),
    ),
    operator_row(
        "pixel_shuffle",
        tied(),
        FLOATS,
        argument(
            "upscale_factor",
            lambda value: value > 0,
            "upscale_factor is positive: the runtime does not shrink images.",
        ),
        computes=False,
        resizes=(),
    ),
)
