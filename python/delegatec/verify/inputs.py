# SPDX-License-Identifier: Apache-2.0
"""Inputs for verification: example inputs, and random variations of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

# The largest size to try for unbounded dynamic dimensions.
_LARGEST_SIZE: Final = 128


@dataclass(frozen=True)
class Trial:
    """Arguments for one call.

    Attributes:
        name: "example", or the seed.
        leaves: the arguments, flattened like the program's inputs.
        args: positional arguments.
        kwargs: keyword arguments.
    """

    name: str
    leaves: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def trials(exported: ExportedProgram, seeds: int) -> Iterator[Trial]:
    """Yields the example inputs, then `seeds` variations.

    Variations keep properties that a model may rely on: floats are normal with the mean and deviation of the
    example; integers and bools are permuted, so that token ids stay in the vocabulary and masks keep their
    ones. Dynamic dimensions take their smallest size, their largest, then random ones.

    Args:
        exported: a program with example inputs.
        seeds: number of variations.
    """
    assert exported.example_inputs is not None
    args, kwargs = exported.example_inputs
    in_spec = exported.call_spec.in_spec
    assert in_spec is not None
    names = in_spec.children()[1].context or []
    ordered = {name: kwargs[name] for name in names}
    leaves, spec = pytree.tree_flatten((tuple(args), ordered))
    yield _trial("example", [_copy(leaf) for leaf in leaves], spec)
    shapes = _symbolic_shapes(exported)
    for seed in range(1, seeds + 1):
        generator = torch.Generator().manual_seed(seed)
        sizes = _sizes(exported, seed)
        varied = [
            _vary(_resize(leaf, shape, sizes), generator) if isinstance(leaf, torch.Tensor) else leaf
            for leaf, shape in zip(leaves, shapes, strict=True)
        ]
        yield _trial(f"seed {seed}", varied, spec)


def _trial(name: str, leaves: list[Any], spec: pytree.TreeSpec) -> Trial:
    args, kwargs = pytree.tree_unflatten([_copy(leaf) for leaf in leaves], spec)
    return Trial(name, leaves, args, kwargs)


def _copy(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _vary(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not tensor.dtype.is_floating_point:
        order = torch.randperm(tensor.numel(), generator=generator)
        return tensor.flatten()[order].reshape(tensor.shape)
    values = tensor.float()
    mean, deviation = (values.mean(), values.std(correction=0)) if values.numel() else (0.0, 1.0)
    if not deviation > 0:
        deviation = 1.0
    varied = torch.randn(tensor.shape, generator=generator) * deviation + mean
    return torch.empty_like(tensor).copy_(varied)  # keeps strides, such as channels last


def _symbolic_shapes(exported: ExportedProgram) -> list[Sequence[Any] | None]:
    nodes = exported.graph.find_nodes(op="placeholder")
    specs = exported.graph_signature.input_specs
    values = [
        node.meta.get("val")
        for node, spec in zip(nodes, specs, strict=True)
        if spec.kind is InputKind.USER_INPUT
    ]
    return [value.shape if isinstance(value, torch.Tensor) else None for value in values]


def _sizes(exported: ExportedProgram, seed: int) -> dict[Any, int]:
    rng = random.Random(seed)
    sizes: dict[Any, int] = {}
    for symbol, bounds in exported.range_constraints.items():
        least = max(1, int(bounds.lower))
        bounded = bounds.upper.is_number and bounds.upper < 2**31
        largest = int(bounds.upper) if bounded else max(least, _LARGEST_SIZE)
        sizes[symbol] = {1: least, 2: largest}.get(seed) or rng.randint(least, largest)
    return sizes


def _resize(tensor: torch.Tensor, shape: Sequence[Any] | None, sizes: dict[Any, int]) -> torch.Tensor:
    for dim, size in enumerate(shape or ()):
        if isinstance(size, torch.SymInt) and tensor.shape[dim] > 0:
            wanted = int(size.node.expr.subs(sizes))
            tensor = tensor.index_select(dim, torch.arange(wanted) % tensor.shape[dim])
    return tensor
