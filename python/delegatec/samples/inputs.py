# SPDX-License-Identifier: Apache-2.0
"""Inputs for verification: example inputs, given ones, and random variations of the examples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

# The largest size to try for unbounded dynamic dimensions.
_LARGEST_SIZE: Final = 128

# Of tensors with at most this number of elements, several permutations are tried.
_SMALL: Final = 64
_PERMUTATIONS: Final = 16
_COMPARED: Final = 2

_EXAMPLE: Final = "example"

Sample = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of one call."""

Sizes = dict[Any, int]
"""Symbol of a dynamic dimension -> its size."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a verification.

    Attributes:
        seeds: number of random variations of the example; more, if dynamic dimensions need more sizes.
        samples: method -> given inputs.
        only: name of the single trial to run; all if empty.
    """

    seeds: int = 3
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    only: str = ""

    def trials(self, method: str, exported: ExportedProgram) -> Iterator[Trial]:
        """Yields the arguments of each call of a method: the example, the given ones, the variations."""
        for trial in trials(exported, self.seeds, self.samples.get(method, ())):
            if self.only in ("", trial.name):
                yield trial


@dataclass(frozen=True)
class Trial:
    """Arguments for one call.

    Attributes:
        name: "example", "sample 0", or "seed 1", with the shapes of inputs with dynamic sizes.
        leaves: the arguments, flattened like the program's inputs.
        args: positional arguments.
        kwargs: keyword arguments.
    """

    name: str
    leaves: list[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def is_example(self) -> bool:
        """Whether these are the example inputs."""
        return self.name == _EXAMPLE

    @property
    def is_resized(self) -> bool:
        """Whether dynamic dimensions may have other sizes than those of the example."""
        return self.name.endswith(")")


def trials(exported: ExportedProgram, seeds: int, samples: Sequence[Sample] = ()) -> Iterator[Trial]:
    """Yields the example inputs, the given ones, then `seeds` variations of the example.

    Variations keep properties that a model may rely on: floats are normal with the mean and deviation of the
    example; integers and bools are permuted, so that token ids stay in the vocabulary and masks keep their
    ones; a bool of one element is flipped in some, also the first; a position, or another integer above 1
    that all elements have, becomes a lower one. All dynamic dimensions take their smallest size, their
    largest, and sizes in between. If there are several, each also takes its ends while the others are in
    between, for which there may be more variations than `seeds`.

    Args:
        exported: a program with example inputs.
        seeds: number of variations.
        samples: further arguments.
    """
    assert exported.example_inputs is not None
    args, kwargs = exported.example_inputs
    in_spec = exported.call_spec.in_spec
    assert in_spec is not None
    names = in_spec.children()[1].context or []
    ordered = {name: kwargs[name] for name in names}
    leaves, spec = pytree.tree_flatten((tuple(args), ordered))
    yield _trial(_EXAMPLE, [_copy(leaf) for leaf in leaves], spec)
    for index, (positional, keywords) in enumerate(samples):
        given = pytree.tree_leaves((tuple(positional), {name: keywords[name] for name in names}))
        yield _trial(f"sample {index}", [_copy(leaf) for leaf in given], spec)
    if not seeds:
        return
    shapes = symbolic_shapes(exported)
    earlier: list[list[Any]] = [[] for _ in leaves]
    for seed, sizes in enumerate(_assignments(exported, shapes, seeds), start=1):
        generator = torch.Generator().manual_seed(seed)
        varied = []
        for leaf, shape, others in zip(leaves, shapes, earlier, strict=True):
            if isinstance(leaf, torch.Tensor):
                resized = _resize(leaf, shape, sizes)
                leaf = _vary(resized, generator, [resized, *others[-_COMPARED:]])
                others.append(leaf)
            varied.append(leaf)
        yield _trial(f"seed {seed}{_resized(varied, shapes)}", varied, spec)


def _trial(name: str, leaves: list[Any], spec: pytree.TreeSpec) -> Trial:
    args, kwargs = pytree.tree_unflatten([_copy(leaf) for leaf in leaves], spec)
    return Trial(name, leaves, args, kwargs)


def _copy(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _vary(tensor: torch.Tensor, generator: torch.Generator, others: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns other values, different from those of the `others` in most elements, if they can be."""
    if tensor.dtype is torch.bool and tensor.numel() == 1:
        return tensor ^ bool(torch.randint(2, (), generator=generator))
    if not tensor.dtype.is_floating_point:
        value = int(tensor.max()) if tensor.numel() and tensor.max() == tensor.min() else 0
        if abs(value) > 1:
            low, high = (1, value) if value > 0 else (value + 1, 0)
            return torch.full_like(tensor, int(torch.randint(low, high, (), generator=generator)))
        return _permuted(tensor, generator, others)
    values = tensor.float()
    mean, deviation = (values.mean(), values.std(correction=0)) if values.numel() else (0.0, 1.0)
    if not deviation > 0:
        deviation = 1.0
    varied = torch.randn(tensor.shape, generator=generator) * deviation + mean
    return torch.empty_like(tensor).copy_(varied)  # keeps strides, such as channels last


def _permuted(
    tensor: torch.Tensor, generator: torch.Generator, others: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Returns a permutation of the elements: of a small tensor, one with few elements that stay the same.

    A model may read a single element, and state shows only if that changes from call to call.
    """
    tries = _PERMUTATIONS if tensor.numel() <= _SMALL else 1
    found = [
        tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].reshape(tensor.shape)
        for _ in range(tries)
    ]
    compared = [other for other in others if other.shape == tensor.shape]
    return min(found, key=lambda each: sum(int((each == other).sum()) for other in compared))


def symbolic_shapes(exported: ExportedProgram) -> list[Sequence[Any] | None]:
    """Returns the shape of each input, flattened; None for those that are not tensors."""
    nodes = exported.graph.find_nodes(op="placeholder")
    specs = exported.graph_signature.input_specs
    values = [
        node.meta.get("val")
        for node, spec in zip(nodes, specs, strict=True)
        if spec.kind is InputKind.USER_INPUT
    ]
    return [value.shape if isinstance(value, torch.Tensor) else None for value in values]


def _assignments(
    exported: ExportedProgram, shapes: Sequence[Sequence[Any] | None], seeds: int
) -> list[Sizes]:
    """Returns the sizes of dynamic dimensions for each variation: at least `seeds`."""
    ranges = ranges_of(exported, shapes)
    found = [{symbol: bounds[end] for symbol, bounds in ranges.items()} for end in (0, 1)]
    if len(ranges) > 1:
        for symbol, bounds in ranges.items():
            for end in bounds:
                found.append({**_between(ranges, len(found) + 1), symbol: end})
    if ranges:
        found.append(_between(ranges, len(found) + 1))
    else:
        found = []
    return found + [_between(ranges, seed) for seed in range(len(found) + 1, seeds + 1)]


def ranges_of(
    exported: ExportedProgram, shapes: Sequence[Sequence[Any] | None]
) -> dict[Any, tuple[int, int]]:
    """Returns the smallest and largest size of each symbol in the shapes of the inputs."""
    used = {
        symbol
        for shape in shapes
        for size in shape or ()
        if isinstance(size, torch.SymInt)
        for symbol in size.node.expr.free_symbols
    }
    ranges: dict[Any, tuple[int, int]] = {}
    for symbol, bounds in exported.range_constraints.items():
        if symbol not in used:
            continue
        least = max(1, int(bounds.lower))
        bounded = bounds.upper.is_number and bounds.upper < 2**31
        ranges[symbol] = least, int(bounds.upper) if bounded else max(least, _LARGEST_SIZE)
    return ranges


def _between(ranges: Mapping[Any, tuple[int, int]], seed: int) -> Sizes:
    """Returns random sizes that are not at an end, where there are any."""
    rng = random.Random(seed)
    return {
        symbol: rng.randint(least + 1, largest - 1) if largest - least > 1 else least
        for symbol, (least, largest) in ranges.items()
    }


def _resized(leaves: Sequence[Any], shapes: Sequence[Sequence[Any] | None]) -> str:
    """Returns the shapes of inputs with dynamic dimensions, as a suffix of the trial's name."""
    texts = [
        f"input {index}: {list(leaf.shape)}"
        for index, (leaf, shape) in enumerate(zip(leaves, shapes, strict=True))
        if isinstance(leaf, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in shape or ())
    ]
    return f" ({', '.join(texts)})" if texts else ""


def _resize(tensor: torch.Tensor, shape: Sequence[Any] | None, sizes: dict[Any, int]) -> torch.Tensor:
    for dim, size in enumerate(shape or ()):
        if isinstance(size, torch.SymInt) and tensor.shape[dim] > 0:
            wanted = int(size.node.expr.subs(sizes))
            tensor = tensor.index_select(dim, torch.arange(wanted) % tensor.shape[dim])
    return tensor
