# SPDX-License-Identifier: Apache-2.0
"""Generator of programs: rows are drawn one by one; those that eager mode rejects are drawn again."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import torch
from torch import Tensor

from tests.generated.holes import fill
from tests.generated.program import Input, Node, Program, live
from tests.generated.rows import GROUPS
from tests.generated.values import FLOATS, INTEGERS, make

# Rejections of a row by eager mode, and of a hole without contents.
_REJECTIONS: Final = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError)
_DTYPES: Final = (*FLOATS, *INTEGERS, torch.bool)
# How often the dtypes of inputs are drawn.
_DTYPE_WEIGHTS: Final = (16, 4, 2, 2, 5, 3, 2, 1, 1, 2)
_MOST_INPUTS: Final = 8
_MOST_ELEMENTS: Final = 3000
_KINDS: Final = {
    "f": lambda t: t.is_floating_point(),
    "m": lambda t: t.dtype in (torch.float32, torch.float64),
    "n": lambda t: t.dtype is not torch.bool,
    "i": lambda t: not t.is_floating_point() and t.dtype is not torch.bool,
    "b": lambda t: t.dtype is torch.bool,
    "t": lambda t: True,
    "w": lambda t: t.dtype is not torch.bool,
}


def generate(seed: int) -> Program:
    """Generates a program of 3 to 30 rows; the same one for the same seed."""
    return _Generator(Random(seed)).program()


@dataclass
class _Generator:
    random: Random
    inputs: list[Input] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Tensor] = field(default_factory=dict)
    read_only: set[int] = field(default_factory=set)
    scope: dict[str, Any] = field(default_factory=dict)

    def program(self) -> Program:
        random = self.random
        self.special = random.random() < 0.2
        self.writes_inputs = random.random() < 0.05
        is_dynamic = random.random() < 0.25
        exec(Program((), ()).source().partition("class Generated")[0], self.scope)
        self.scope["self"] = _Buffers()
        groups, weights = list(GROUPS), list(GROUPS.values())
        for _ in range(random.randint(1, 3)):
            self._new("x", self._dtype(), self._shape())
        if random.random() < 0.2:
            self._new("self.s", random.choice((torch.float32, torch.int64)), self._shape())
        count = random.choice((3, 5, 8, 12, 20, 30))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for _ in range(20 * count):
                if len(self.nodes) >= count:
                    break
                self._row(random.choice(random.choices(groups, weights)[0]))
        inputs = tuple(self._dynamic(each) if is_dynamic else each for each in self.inputs)
        return live(Program(inputs, tuple(self.nodes), self._outputs()))

    def _dynamic(self, wanted: Input) -> Input:
        """Makes dimensions dynamic; torch.export makes them static again if the rows need that."""
        if wanted.is_buffer or wanted.values.startswith("index"):
            return wanted
        chosen = [i for i, size in enumerate(wanted.shape) if size > 1 and self.random.random() < 0.6]
        return Input(wanted.name, wanted.dtype, wanted.shape, wanted.values, wanted.seed, tuple(chosen))

    def _outputs(self) -> tuple[str, ...]:
        used = {name for node in self.nodes for name in node.operands()}
        names = [node.name for node in self.nodes if node.name]
        ends = [name for name in names if name not in used]
        others = [name for name in names if name in used]
        ends += self.random.sample(others, min(len(others), self.random.randint(0, 2)))
        if self.random.random() < 0.05:
            ends += [self.random.choice([*ends, self.inputs[0].name])]
        return tuple(ends or [self.inputs[0].name])

    def _row(self, template: str) -> None:
        before = len(self.inputs)
        try:
            fills = fill(template, self.random, self._operand, self._tensor)
            is_write = "w" in fills
            node = Node("" if is_write else f"v{len(self.nodes)}", template, fills)
            text = node.text()
            if is_write:
                if self._is_unsafe_write(fills["w"]):
                    raise ValueError("it writes to an input")
                exec(text, self.scope)
            else:
                result = eval(text.partition(" = ")[2], self.scope)
                self._check(result)
                self._define(node.name, result)
        except _REJECTIONS:
            for each in self.inputs[before:]:
                self.scope.pop(each.name, None)
                self.values.pop(each.name, None)
            del self.inputs[before:]
        else:
            self.nodes.append(node)

    def _check(self, result: Any) -> None:
        if not isinstance(result, Tensor) or result.dtype not in _DTYPES:
            raise ValueError("not a tensor of a dtype of the runtime")
        if result.numel() > _MOST_ELEMENTS or result.dim() > 5 or max(result.shape, default=0) > 64:
            raise ValueError("too large")
        is_checked = result.is_floating_point() and result.numel() and not self.special
        # a program of nothing but NaN checks nothing
        if is_checked and self.random.random() < 0.9 and float(result.isfinite().float().mean()) < 0.6:
            raise ValueError("not finite")

    def _is_unsafe_write(self, name: str) -> bool:
        value = self.values[name]
        return _overlaps(value) or (
            value.untyped_storage().data_ptr() in self.read_only and value.numel() > 0
        )

    def _operand(self, kind: str, rank: str, relation: str, first: Tensor | None) -> tuple[str, Tensor]:
        fits = _KINDS[kind]
        low, _, high = rank.partition("-")
        least = int(low.rstrip("+") or 0)
        most = int(high) if high else (5 if low.endswith("+") or not low else least)

        def is_candidate(value: Tensor) -> bool:
            if not (fits(value) and least <= value.dim() <= most):
                return False
            if relation == "=":
                return first is not None and value.dtype == first.dtype and value.shape == first.shape
            return relation != "~" or (first is not None and _broadcasts(value.shape, first.shape))

        names = [name for name, value in self.values.items() if is_candidate(value)]
        if kind == "w":
            names = [name for name in names if not self._is_unsafe_write(name)]
        if names and (kind == "w" or self.random.random() < 0.93):
            # later values are more likely, for depth
            name = self.random.choices(names, range(1, len(names) + 1))[0]
            return name, self.values[name]
        if kind == "w":
            raise LookupError("nothing to write to")
        dtype = self._dtype()
        if relation and first is not None:
            dtype = first.dtype if relation == "=" or self.random.random() < 0.7 else dtype
            shape = tuple(first.shape)
            if relation == "~":
                start = self.random.choice((0, 0, 0, len(shape) // 2, len(shape)))
                shape = tuple(1 if size and self.random.random() < 0.15 else size for size in shape[start:])
        else:
            shape = self._shape(least, most)
        for _ in range(20):
            value = torch.empty(shape, dtype=dtype)
            if fits(value) and least <= len(shape) <= most:
                return self._new(self._owner(), dtype, shape)
            dtype = self._dtype()
        raise LookupError("no operand")

    def _tensor(self, kind: str, shape: tuple[int, ...], high: int, first: Tensor) -> tuple[str, Tensor]:
        if math.prod(shape) > _MOST_ELEMENTS:
            raise ValueError("too large")
        if kind == "W":
            values = "dyadic" if self.random.random() < 0.3 else "normal"
            return self._new(self._owner(0.6), first.dtype, shape, values)
        if kind == "B":
            return self._new(self._owner(), torch.bool, shape)
        if high < 1 and math.prod(shape) > 0:
            raise ValueError("nothing to index")
        return self._new(self._owner(1.0 if kind == "R" else 0.5), torch.int64, shape, f"index {high}")

    def _owner(self, constant: float = 0.25) -> str:
        return "self.c" if self.random.random() < constant else "x"

    def _new(
        self, prefix: str, dtype: torch.dtype, shape: tuple[int, ...], values: str = ""
    ) -> tuple[str, Tensor]:
        if prefix == "x" and sum(not each.is_buffer for each in self.inputs) >= _MOST_INPUTS:
            prefix = "self.c"
        if not values:
            kinds = ("normal", "dyadic", "special" if self.special else "normal", "large")
            values = self.random.choices(kinds, (6, 4, 3, 0.5))[0]
        name = f"{prefix}{sum(each.name.startswith(prefix) for each in self.inputs)}"
        made = Input(name, dtype, shape, values, self.random.randrange(1 << 30))
        value = make(made)
        self.inputs.append(made)
        self._define(name, value)
        if not (prefix == "self.s" or (prefix == "x" and self.writes_inputs)):
            self.read_only.add(value.untyped_storage().data_ptr())
        return name, value

    def _define(self, name: str, value: Tensor) -> None:
        self.values[name] = value
        if name.startswith("self."):
            setattr(self.scope["self"], name[5:], value)
        else:
            self.scope[name] = value

    def _dtype(self) -> torch.dtype:
        return self.random.choices(_DTYPES, _DTYPE_WEIGHTS)[0]

    def _shape(self, least: int = 0, most: int = 5) -> tuple[int, ...]:
        rank = self.random.choices(range(6), (2, 5, 7, 5, 3, 1))[0]
        rank = min(max(rank, least), most)
        sizes = self.random.choices(range(8), (0.25, 2, 4, 4, 3, 1.5, 1, 1), k=rank)
        return tuple(sizes if math.prod(sizes) <= 800 else (min(size, 3) for size in sizes))


class _Buffers:
    """The module, as far as rows are concerned."""


def _broadcasts(shape: torch.Size, other: torch.Size) -> bool:
    """Whether a shape broadcasts to another one."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return len(shape) <= len(other) and all(a == b or a == 1 for a, b in pairs)


def _overlaps(value: Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(value.shape, value.stride(), strict=True))
