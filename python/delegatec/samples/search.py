# SPDX-License-Identifier: Apache-2.0
"""The search for layers that stay in float: which ones, and the loss at each number of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLine:
    """A line of user code: workspace-relative file, 1-based line, function, and source text."""

    file: str
    line: int
    function: str
    text: str


@dataclass(frozen=True)
class FloatLayer:
    """A layer that stays in float.

    Attributes:
        module: path of its module, such as "encoder.layer.0.output"; "" for the model itself.
        operator: its main operator, such as "aten.linear", or "aten.linear of weight_hh_l0" if its module has
            several.
        noise: power of the error at the outputs, over that of the outputs, if only this layer and the values
            at its boundary are quantized; in two digits.
        operations: its operations, as a share of all.
        location: its line, or a reference to a node; None if it has none.
    """

    module: str
    operator: str
    noise: float
    operations: float
    location: SourceLine | None


@dataclass(frozen=True)
class SearchPoint:
    """A measured choice.

    Attributes:
        float_layers: number of layers in float.
        integer_operations: operations in integers, as a share of all, in four digits.
        weight_bytes: size of the weights of layers and of their scales.
        value: the metric, in nine digits.
        is_chosen: whether it is that of the result.
    """

    float_layers: int
    integer_operations: float
    weight_bytes: int
    value: float
    is_chosen: bool


@dataclass(frozen=True)
class Search:
    """A search.

    Attributes:
        metric: selector of the metric; "" for 1 minus the ratio of the powers of error and outputs.
        samples: number of samples that it is measured with.
        baseline: the metric of the model in float, in nine digits.
        maximum_loss: by how much it may be lower.
        layers: number of layers that the search may keep in float.
        evaluations: runs of all samples.
        points: measured choices, by number of layers in float.
        in_float: the layers that stay in float, in the order of the model.
    """

    metric: str
    samples: int
    baseline: float
    maximum_loss: float
    layers: int
    evaluations: int
    points: tuple[SearchPoint, ...]
    in_float: tuple[FloatLayer, ...]

    @property
    def chosen(self) -> SearchPoint:
        """The point of the result."""
        return next(point for point in self.points if point.is_chosen)

    @property
    def has_one_choice(self) -> bool:
        """Whether one point is that of the result; files may have others."""
        return sum(point.is_chosen for point in self.points) == 1

    @property
    def metric_name(self) -> str:
        """The metric in words."""
        return self.metric or "1 - error/signal"


def search_text(search: Search) -> Iterator[str]:
    """Yields lines of text: the figures, the curve, and the layers in float."""
    chosen = search.chosen
    loss = search.baseline - chosen.value
    yield (
        f"{search.metric_name} over {search.samples} samples: {search.baseline:.4f} in float, "
        f"{chosen.value:.4f} quantized, {loss:.3g} less of at most {search.maximum_loss:g}"
    )
    yield (
        f"in float: {chosen.float_layers} of {search.layers} layers; in integers: "
        f"{chosen.integer_operations:.1%} of operations; {search.evaluations} evaluations"
    )
    yield f"  {'float layers':>12}  {'in integers':>11}  {'weight bytes':>12}  {'loss':>8}"
    for point in search.points:
        figures = f"{point.float_layers:12}  {point.integer_operations:11.1%}  {point.weight_bytes:12}"
        mark = "  chosen" if point.is_chosen else ""
        yield f"  {figures}  {search.baseline - point.value:8.2g}{mark}"
    for layer in search.in_float:
        line = layer.location
        where = f" at {line.file}:{line.line}" if line else ""
        text = f"  {line.text}" if line and line.text else ""
        name = f"{layer.module or 'the model'}: {layer.operator}"
        yield f"  float  {name}, noise {layer.noise:.2g}{where}{text}"
