# SPDX-License-Identifier: Apache-2.0
"""Check that an exported program is right for all sizes in its ranges.

While it traces, torch.export notes each condition on sizes that it decided: its guards. Those that are bounds
narrow the ranges. Others, such as that a size is even, remain: the program would compute the same for odd
sizes.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.samples.inputs import ranges_of, symbolic_shapes

# Combinations of sizes that are tried; all, if there are no more.
_MOST: Final = 4096
_SIZE: Final = re.compile(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]")
# In strict mode, guards are about a list of all inputs.
_LISTED: Final = re.compile(r"\bflat_args\[(\d+)\]")
_MULTIPLE: Final = re.compile(r"\(?dimension (\d+) of ([^ ]+) % (\d+)\)? == 0")
# Positional and keyword arguments -> all of them by name.
_Named = Callable[[Sequence[Any], Mapping[str, Any]], Mapping[str, Any]]
# Marks programs whose guards hold.
_CHECKED: Final = "guards checked"
_NAMES: Final = {
    "math": math,
    "torch": torch,
    "__builtins__": {"min": min, "max": max, "abs": abs, "int": int},
}


def guard_problems(
    program: ExportedProgram, module: object, function: str, where: SourceLocation | None
) -> Iterator[Diagnostic]:
    """Yields DC113 for each guard that sizes in the ranges of a program break.

    Args:
        program: from torch.export, in this process: its guards are evaluated.
        module: the module.
        function: the name of the function of the module that was exported.
        where: the line that created the Model.
    """
    program.graph_module.meta[_CHECKED] = True
    signature = inspect.signature(getattr(module, function))

    def named(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        return signature.bind(*args, **kwargs).arguments

    yield from _problems(program, function, named, where)


def problems_of_others(methods: Mapping[str, ExportedProgram]) -> Iterator[Diagnostic]:
    """Yields DC113 like `guard_problems`, for programs that the user exported by torch.

    Args:
        methods: name -> program. A program without guards, such as one that was read, has no problems.
    """
    for method, program in methods.items():
        if not program._guards_code or program.graph_module.meta.get(_CHECKED):
            continue
        signature = program.module_call_graph[0].signature
        names = (signature.forward_arg_names if signature else None) or []

        def named(args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] = names) -> Any:
            return {**dict(zip(names, args, strict=False)), **kwargs}

        yield from _problems(program, method, named, None)


def _problems(
    program: ExportedProgram, function: str, named: _Named, where: SourceLocation | None
) -> Iterator[Diagnostic]:
    guards = [(text, compiled) for text in program._guards_code if (compiled := _compiled(text))]
    shapes = symbolic_shapes(program)
    ranges = ranges_of(program, shapes)
    if not guards or not ranges:
        return
    leaves = [_Unknown() if shape is None else _Sized(shape, list(ranges)) for shape in shapes]
    try:
        arguments = _arguments(program, named, leaves)
    except Exception:  # noqa: BLE001 - a class of the user refuses other contents than tensors
        return
    scope = {**_NAMES, "L": arguments}
    dynamic = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, _Sized) and leaf.is_dynamic}
    broken: dict[str, str] = {}
    for sizes in _combinations(list(ranges.values())):
        for leaf in dynamic.values():
            leaf.resize(sizes)
        for text, guard in guards:
            if text not in broken and not _holds(guard, scope):
                broken[text] = ", ".join(f"input {i}: {list(leaf.size())}" for i, leaf in dynamic.items())
        if len(broken) == len(guards):
            break
    for text, example in broken.items():
        condition = _SIZE.sub(r"dimension \3 of \1\2", text).strip()
        multiple = _MULTIPLE.search(condition)
        shown = _LISTED.sub(r"input \1", condition)
        yield Diagnostic(
            "DC113",
            f"{function}() is traced for sizes with {shown}; dynamic_shapes include {example}",
            location=where,
            expected="one sequence of operators for all sizes in the ranges of dynamic_shapes",
            help=f'in dynamic_shapes, write {multiple[3]} * torch.export.Dim("name", min=..., max=...)'
            if multiple
            else "leave this size static, with a method for each, or compute the same for all sizes",
        )


def _compiled(text: str) -> Any:
    try:
        return compile(text, "<guard>", "eval")
    except SyntaxError:
        return None


def _holds(guard: Any, scope: dict[str, Any]) -> bool:
    try:
        return bool(eval(guard, scope))  # torch's own text, from this process
    except Exception:  # noqa: BLE001 - about something else than sizes
        return True


def _combinations(ranges: Sequence[tuple[int, int]]) -> Iterator[Sequence[int]]:
    """Yields values of all symbols."""
    spans = [range(least, largest + 1) for least, largest in ranges]
    if math.prod(map(len, spans)) <= _MOST:
        yield from itertools.product(*spans)
        return
    rng = random.Random(0)
    yield from itertools.islice(itertools.product(*((span[0], span[-1]) for span in spans)), _MOST)
    for _ in range(_MOST):
        yield [rng.choice(span) for span in spans]


class _Unknown:
    """An input that is not a tensor: guards that compare it are not evaluated."""

    def __eq__(self, other: object) -> bool:
        raise TypeError


class _Sized:
    """A tensor of which the sizes are known.

    Args:
        shape: its symbolic sizes.
        symbols: the symbols.
    """

    def __init__(self, shape: Sequence[Any], symbols: Sequence[Any]) -> None:
        self._sizes: list[int] = [size if isinstance(size, int) else 0 for size in shape]
        self._functions: dict[int, Callable[..., int]] = {
            dim: sympy.lambdify(symbols, size.node.expr, modules="math")
            for dim, size in enumerate(shape)
            if isinstance(size, torch.SymInt)
        }

    @property
    def is_dynamic(self) -> bool:
        """Whether it has a dynamic size."""
        return bool(self._functions)

    def resize(self, values: Sequence[int]) -> None:
        """Sets the sizes that depend on symbols, to those of these values."""
        for dim, function in self._functions.items():
            self._sizes[dim] = function(*values)

    def size(self) -> Sequence[int]:
        """Returns the sizes, as guards ask for them."""
        return self._sizes


def _arguments(program: ExportedProgram, named: _Named, leaves: list[Any]) -> Mapping[str, Any]:
    """Returns the arguments by name, as guards refer to them, and in one list, as those of strict mode do."""
    in_spec = program.call_spec.in_spec
    assert in_spec is not None
    args, kwargs = pytree.tree_unflatten(leaves, in_spec)
    return {**named(args, kwargs), "flat_args": leaves}
