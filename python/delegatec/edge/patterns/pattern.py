# SPDX-License-Identifier: Apache-2.0
"""Patterns of values, composed like the arithmetic that they match.

With `x, epsilon = Var("x"), Scalar("epsilon")`, the pattern `x / sqrt(x * x + epsilon)` matches the division
of a value by the root of its square plus a scalar. A pattern yields each way in which it matches: operands of
sums and products commute, and a variable that occurs twice is one value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, defaults_of
from delegatec.edge.patterns.match import Match

aten = torch.ops.aten


class Pattern(ABC):
    """A condition on a value."""

    targets: frozenset[Any] = frozenset()
    """The targets of the calls that it matches; empty if it matches other values, too."""

    @abstractmethod
    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        """Yields the matches of a value, in order of preference, each with more variables."""

    def first(self, value: Any, match: Match | None = None) -> Match | None:
        """Returns the first match of a value, if any, with the variables of another match."""
        return next(self.matches(value, match or Match()), None)

    def named(self, name: str) -> Pattern:
        """Returns the pattern as a variable."""
        return Var(name, self)

    def where(self, condition: Callable[[Any], bool]) -> Pattern:
        """Returns the pattern with a condition on the value."""
        return _Where(self, condition)

    def one_use(self) -> Pattern:
        """Returns the pattern with the condition that nothing else uses the value."""
        return _Where(self, lambda node: len(node.users) == 1)

    def __or__(self, other: Pattern) -> Pattern:
        return OneOf(self, other)

    def __add__(self, other: Any) -> Pattern:
        return Call((aten.add.Tensor, aten.add.Scalar), self, other, commutes=True)

    def __sub__(self, other: Any) -> Pattern:
        return Call((aten.sub.Tensor, aten.sub.Scalar), self, other)

    def __mul__(self, other: Any) -> Pattern:
        return Call((aten.mul.Tensor, aten.mul.Scalar), self, other, commutes=True)

    def __truediv__(self, other: Any) -> Pattern:
        return Call((aten.div.Tensor, aten.div.Scalar), self, other)

    def __pow__(self, exponent: Any) -> Pattern:
        return Call(aten.pow.Tensor_Scalar, self, exponent)

    def __neg__(self) -> Pattern:
        return Call(aten.neg.default, self)


class _Anything(Pattern):
    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        yield match


ANY: Final = _Anything()
"""Matches every argument."""


class _Literal(Pattern):
    """One scalar, dtype or None, or a list of arguments."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        if not isinstance(value, Node) and value == self._value:
            yield match


NONE: Final = _Literal(None)
"""Matches an argument that is None."""


class _Items(Pattern):
    """A list, each of whose elements matches a pattern."""

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = [_pattern(item) for item in items]

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        if isinstance(value, (list, tuple)) and len(value) == len(self._items):
            yield from _all(self._items, value, match)


class _Where(Pattern):
    def __init__(self, inner: Pattern, condition: Callable[[Any], bool]) -> None:
        self._inner = inner
        self._condition = condition
        self.targets = inner.targets

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        for found in self._inner.matches(value, match):
            if self._condition(value):
                yield found


class OneOf(Pattern):
    """Alternatives, in order of preference."""

    def __init__(self, *alternatives: Pattern) -> None:
        self._alternatives = alternatives
        self._by_target: dict[Any, list[Pattern]] = {}
        if all(each.targets for each in alternatives):
            self.targets = frozenset().union(*(each.targets for each in alternatives))
            for target in self.targets:
                self._by_target[target] = [each for each in alternatives if target in each.targets]

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        """See `Pattern.matches`."""
        target = value.target if isinstance(value, Node) else None
        for each in self._by_target.get(target, ()) if self.targets else self._alternatives:
            yield from each.matches(value, match)


class Through(Pattern):
    """A value, or calls of which it is the first operand, one after another.

    Args:
        inner: the pattern of the value.
        skips: whether a call may be one of them.
    """

    def __init__(self, inner: Pattern, skips: Callable[[Node], bool]) -> None:
        self._inner = inner
        self._skips = skips

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        """See `Pattern.matches`."""
        yield from self._inner.matches(value, match)
        if isinstance(value, Node) and value.op == "call_function" and self._skips(value):
            yield from self.matches(value.args[0], match.calling(value))


class Var(Pattern):
    """A node, the same one wherever the name occurs.

    Args:
        name: the name.
        inner: its pattern; any node by default.
    """

    def __init__(self, name: str, inner: Pattern | None = None) -> None:
        self.name: Final = name
        self._inner = inner
        self.targets = inner.targets if inner is not None else frozenset()

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        """See `Pattern.matches`."""
        if self.name in match.values:
            if self._value(value, match) == match.values[self.name]:
                yield match
        elif self._inner is not None:
            for found in self._inner.matches(value, match):
                yield found.binding(self.name, value)
        else:
            own = self._value(value, match)
            if own is not None:
                yield match.binding(self.name, own)

    def _value(self, value: Any, match: Match) -> Any:
        """Returns the pattern of the variable if it may match a value; otherwise None."""
        return value if isinstance(value, Node) else None


class Const(Var):
    """A constant of the program."""

    def _value(self, value: Any, match: Match) -> Any:
        return value if isinstance(value, Node) and match.constant(value) is not None else None


class Argument(Var):
    """Any argument, such as a list of sizes, or None."""

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        """See `Pattern.matches`."""
        if match.values.get(self.name, value) == value:
            yield match.binding(self.name, value)


class Scalar(Var):
    """A scalar, or a constant of one element with that value."""

    def _value(self, value: Any, match: Match) -> Any:
        if isinstance(value, Node):
            tensor = match.constant(value)
            return tensor.item() if tensor is not None and tensor.numel() == 1 else None
        return value if isinstance(value, (int, float)) else None


class Call(Pattern):
    """A call of an operator.

    Args:
        targets: an overload, or several with the same arguments.
        *args: patterns of its arguments in the order of the schema; other values match equal arguments, and
            `...` at the end matches all that remain.
        commutes: whether its first two arguments may be exchanged.
        **kwargs: patterns of its other arguments. Those that are not given have their defaults.
    """

    def __init__(
        self, targets: Any | Iterable[Any], *args: Any, commutes: bool = False, **kwargs: Any
    ) -> None:
        self.targets = frozenset(targets if isinstance(targets, Iterable) else [targets])
        self._is_open = args[-1:] == (...,)
        positional = [_pattern(each) for each in args if each is not ...]
        self._orders = [positional]
        if commutes:
            first, second, *rest = positional
            self._orders.append([second, first, *rest])
        self._named = {name: _pattern(value) for name, value in kwargs.items()}

    def matches(self, value: Any, match: Match) -> Iterator[Match]:
        """See `Pattern.matches`."""
        if not isinstance(value, Node) or value.target not in self.targets:
            return
        if isinstance(value.target, OpOverload):
            bound, defaults = bind(value), defaults_of(value.target)
        else:
            bound, defaults = {str(index): each for index, each in enumerate(value.args)}, {}
        count = len(self._orders[0])
        names = list(bound)[count:]
        if not self._is_open and any(
            name not in self._named and bound[name] != defaults.get(name) for name in names
        ):
            return
        arguments = [*list(bound.values())[:count], *(bound[name] for name in self._named)]
        for order in self._orders:
            yield from _all([*order, *self._named.values()], arguments, match.calling(value))


def _pattern(value: Any) -> Pattern:
    if isinstance(value, Pattern):
        return value
    return _Items(value) if isinstance(value, (list, tuple)) else _Literal(value)


def _all(patterns: Sequence[Pattern], values: Sequence[Any], match: Match) -> Iterator[Match]:
    """Yields the matches of several values, one for each pattern."""
    if not patterns:
        yield match
        return
    for found in patterns[0].matches(values[0], match):
        yield from _all(patterns[1:], values[1:], found)
