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

from tests.generated.examples import DIMS
from tests.generated.holes import fill
from tests.generated.profiles import ANY, Profile
from tests.generated.program import (
    CONSTANT_HOLDERS,
    FORWARD,
    HOLDERS,
    PLAIN_HOLDERS,
    STATE_HOLDERS,
    STEP,
    Input,
    Node,
    Program,
    is_constant,
    live,
)
from tests.generated.rows_memory import VIEWS
from tests.generated.values import make

# Rejections of a row by eager mode, and of a hole without contents.
_REJECTIONS: Final = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError)
# Dtypes of the runtime.
_DTYPES: Final = frozenset(ANY.dtypes)
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
    "s": lambda t: t.dtype is not torch.bool,
    "a": lambda t: t.dtype is not torch.bool,
    "e": lambda t: True,
}
# Holes of values that a row writes to, so that it is a statement.
_WRITTEN: Final = ("w", "s", "a")


def generate(seed: int, profile: Profile = ANY) -> Program:
    """Generates a program of 3 to 30 rows; the same one for the same seed and profile."""
    return _Generator(Random(seed), profile).program()


@dataclass
class _Generator:
    random: Random
    profile: Profile
    inputs: list[Input] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Tensor] = field(default_factory=dict)
    # address -> the tensor, which is kept so that no other one gets its address
    read_only: dict[int, Tensor] = field(default_factory=dict)
    scope: dict[str, Any] = field(default_factory=dict)
    # whether the row is one of `Profile.first`: a layer of a constant is a constant
    is_first: bool = False

    def program(self) -> Program:
        random, profile = self.random, self.profile
        self.special = random.random() < profile.special
        self.writes_inputs = random.random() < profile.written
        self.method = FORWARD
        is_dynamic = random.random() < profile.dynamic
        exec(Program((), ()).source().partition("class Generated")[0], self.scope)
        self.scope["self"] = _Module()
        for _ in range(random.randint(1, 3)):
            self._new("x", self._dtype(), self._shape())
        if random.random() < profile.state:
            # caches have equal initial values
            values, shape = random.choice(("zeros", "ones", "")), self._shape()
            dtype = random.choice([each for each in (torch.float32, torch.int64) if each in profile.dtypes])
            for _ in range(random.randint(1, 2)):
                self._new("self.s", dtype, shape, values)
        if random.random() < profile.attributes:
            self._new(f"self.{random.choice(PLAIN_HOLDERS)}", torch.float32, self._shape())
        owned = dict(self.values)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            outputs, step = self._method(random.choice(profile.counts)), tuple[str, ...]()
            if random.random() < profile.methods:
                self.method = STEP
                self.values = owned | {each.name: self.values[each.name] for each in self.inputs}
                step = self._method(random.choice((1, 3, 5)))
        inputs = tuple(self._dynamic(each) if is_dynamic else each for each in self.inputs)
        dims = random.choices(list(DIMS), (6, 1, 3, 0.5, 1, 1))[0]
        return live(Program(inputs, tuple(self.nodes), outputs, step, self._aliases(), dims))

    def _method(self, count: int) -> tuple[str, ...]:
        """Draws the rows of a method, and returns its outputs."""
        groups, weights = list(self.profile.groups), list(self.profile.groups.values())
        before = len(self.nodes)
        self.is_first = True
        for _ in range(20):
            if not self.profile.first or len(self.nodes) > before:
                break
            self._row(self.random.choice(self.profile.first))
        self.is_first = False
        for _ in range(20 * count):
            if len(self.nodes) >= before + count:
                break
            self._row(self.random.choice(self.random.choices(groups, weights)[0]))
        if self.random.random() < self.profile.views:
            self._row(self.random.choice(VIEWS))
        return self._outputs()

    def _aliases(self) -> dict[str, str]:
        """Returns inputs with the example of another one, or with a constant, of the same dtype and shape."""
        if self.random.random() >= self.profile.aliases:
            return {}
        pairs = [
            (each.name, other.name)
            for i, each in enumerate(self.inputs)
            for j, other in enumerate(self.inputs)
            if (not each.is_buffer and (j < i or other.name[5:6] in (*CONSTANT_HOLDERS, *STATE_HOLDERS)))
            and (each.dtype, each.shape) == (other.dtype, other.shape)
            # its example would be out of range
            and not each.values.startswith("index")
            and not other.values.startswith("index")
        ]
        return dict([self.random.choice(pairs)] if pairs else [])

    def _dynamic(self, wanted: Input) -> Input:
        """Makes dimensions dynamic; torch.export makes them static again if the rows need that."""
        if wanted.is_buffer or wanted.values.startswith("index"):
            return wanted
        chosen = [i for i, size in enumerate(wanted.shape) if size > 1 and self.random.random() < 0.6]
        return Input(wanted.name, wanted.dtype, wanted.shape, wanted.values, wanted.seed, tuple(chosen))

    def _outputs(self) -> tuple[str, ...]:
        nodes = [node for node in self.nodes if node.method == self.method]
        used = {name for node in nodes for name in node.operands()}
        names = [node.name for node in nodes if node.name]
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
            written = next((fills[hole] for hole in _WRITTEN if hole in fills), "")
            node = Node("" if written else f"v{len(self.nodes)}", template, fills, self.method)
            text = node.text()
            if written:
                self._reject_overlaps(written, node)
                self._write(written, text)
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

    def _reject_overlaps(self, name: str, node: Node) -> None:
        """Rejects operands that are other views of what the row writes to: the order is undefined."""
        written = self.values[name]
        for each in node.operands():
            value = self.values.get(each, written)
            is_same = (value.data_ptr(), value.shape, value.stride()) == (
                written.data_ptr(),
                written.shape,
                written.stride(),
            )
            shares = value.untyped_storage().data_ptr() == written.untyped_storage().data_ptr()
            if shares and not is_same and value.numel():
                raise ValueError("it reads what it writes")

    def _write(self, name: str, text: str) -> None:
        """Runs a statement that writes to a value."""
        if self._is_unsafe_write(name):
            raise ValueError("it writes to an input")
        before = self.values[name]
        exec(text, self.scope)
        # an attribute may have another tensor now
        value = eval(name, self.scope)
        if (value.dtype, value.shape) != (before.dtype, before.shape):
            exec(f"{name} = before", self.scope | {"before": before})
            raise ValueError("it changes the form of state")
        self.values[name] = value

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
        if self.is_first:
            names = [name for name in names if not is_constant(name)]
        if kind == "e":
            names = [name for name in names if name[0] in ("x", "s")]
        if kind in ("s", "a"):
            names = [name for name in names if name[5:6] in (PLAIN_HOLDERS if kind == "a" else STATE_HOLDERS)]
        if kind in _WRITTEN:
            names = [name for name in names if not self._is_unsafe_write(name)]
        if names and (kind in (*_WRITTEN, "e") or self.random.random() < 0.93):
            # later values are more likely, for depth
            name = self.random.choices(names, range(1, len(names) + 1))[0]
            return name, self.values[name]
        if kind in (*_WRITTEN, "e"):
            raise LookupError("no such value")
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
                return self._new("x" if self.is_first else self._owner(), dtype, shape)
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

    def _owner(self, constant: float = 0.0) -> str:
        return "self.c" if self.random.random() < max(constant, self.profile.constants) else "x"

    def _new(
        self, prefix: str, dtype: torch.dtype, shape: tuple[int, ...], values: str = ""
    ) -> tuple[str, Tensor]:
        if prefix == "x" and sum(not each.is_buffer for each in self.inputs) >= _MOST_INPUTS:
            prefix = "self.c"
        if not values:
            kinds = ("normal", "dyadic", "special" if self.special else "normal", "large")
            values = self.random.choices(kinds, self.profile.values)[0]
        if prefix in ("self.c", "self.s"):
            holders = CONSTANT_HOLDERS if prefix == "self.c" else STATE_HOLDERS
            prefix = f"self.{self.random.choices(list(holders), list(holders.values()))[0]}"
        name = f"{prefix}{sum(each.name.startswith(prefix) for each in self.inputs)}"
        name = HOLDERS[prefix[5:]][1].format(name[5:]) if prefix != "x" else name
        made = Input(name, dtype, shape, values, self.random.randrange(1 << 30))
        value = make(made)
        self.inputs.append(made)
        self._define(name, value)
        is_state = prefix[5:] in (*STATE_HOLDERS, *PLAIN_HOLDERS)
        if not (is_state or (prefix == "x" and self.writes_inputs)):
            self.read_only[value.untyped_storage().data_ptr()] = value
        return name, value

    def _define(self, name: str, value: Tensor) -> None:
        self.values[name] = value
        if name.startswith("self."):
            made = self.inputs[-1]
            exec(made.declaration(), self.scope | {made.attribute: value})
        else:
            self.scope[name] = value

    def _dtype(self) -> torch.dtype:
        dtypes = self.profile.dtypes
        return self.random.choices(list(dtypes), list(dtypes.values()))[0]

    def _shape(self, least: int = 0, most: int = 5) -> tuple[int, ...]:
        rank = self.random.choices(range(6), (2, 5, 7, 5, 3, 1))[0]
        rank = min(max(rank, least), most)
        sizes = self.random.choices(range(len(self.profile.sizes)), self.profile.sizes, k=rank)
        return tuple(sizes if math.prod(sizes) <= 800 else (min(size, 3) for size in sizes))


class _Module:
    """The module, as far as rows are concerned."""

    def register_buffer(self, name: str, value: Tensor, persistent: bool = True) -> None:
        """Stores a buffer."""
        setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        is_parameter = isinstance(vars(self).get(name), torch.nn.Parameter)
        if is_parameter and not isinstance(value, torch.nn.Parameter):
            raise TypeError("a tensor in place of a parameter")
        super().__setattr__(name, value)


def _broadcasts(shape: torch.Size, other: torch.Size) -> bool:
    """Whether a shape broadcasts to another one."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return len(shape) <= len(other) and all(a == b or a == 1 for a, b in pairs)


def _overlaps(value: Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(value.shape, value.stride(), strict=True))
