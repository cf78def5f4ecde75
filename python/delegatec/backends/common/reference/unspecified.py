# SPDX-License-Identifier: Apache-2.0
"""Behavior of a runtime that neither its documentation nor its source specifies.

A blob is correct only if its results are the same for every choice. A run uses one choice for each behavior;
`variants()` lists the runs for a test to compare, `strict()` stops wherever a behavior occurs, and
`depends_on` finds the behaviors that affect results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Self, TypeVar, get_args, get_type_hints

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic

_RAISE: Final = "raise"


@dataclass(frozen=True)
class UnspecifiedBehavior:
    """A choice for each behavior. The subclass of a backend has a field per behavior, a `Literal` of choices.

    The default is documented for similar operations, or was measured. "raise" stops a run where the behavior
    occurs.

    Attributes:
        runtime: name of the runtime, for messages.
    """

    runtime: ClassVar[str]

    def choose(self, behavior: str, occurs: Callable[[], torch.Tensor | bool], what: str) -> str:
        """Returns the choice for a behavior that may occur in an operation.

        Args:
            behavior: name of a field.
            occurs: returns whether it occurs, or where; called only if the choice is to raise.
            what: describes the case, for the message.

        Raises:
            DelegatecError: DC440 if it occurs and the choice is to raise.
        """
        choice: str = getattr(self, behavior)
        if choice == _RAISE:
            found = occurs()
            if bool(found.any()) if isinstance(found, torch.Tensor) else found:
                message = f"unspecified behavior of {self.runtime}: {what}"
                raise DelegatecError([Diagnostic(code="DC440", message=message)])
        return choice

    def with_choice(self, behavior: str, choice: str) -> Self:
        """Returns the same choices except for one behavior."""
        change: dict[str, Any] = {behavior: choice}
        return replace(self, **change)

    @classmethod
    def choices_for(cls, behavior: str) -> tuple[str, ...]:
        """Returns the choices for a behavior without "raise", in the order of the field."""
        return tuple(choice for choice in get_args(get_type_hints(cls)[behavior]) if choice != _RAISE)

    @classmethod
    def strict(cls) -> Self:
        """Returns choices that raise for every behavior."""
        refusals: dict[str, Any] = {field.name: _RAISE for field in fields(cls)}
        return cls(**refusals)

    @classmethod
    def variants(cls) -> dict[str, Self]:
        """Returns the runs with one choice that is not the default, under names like "ties=last"."""
        return {
            f"{field.name}={choice}": cls().with_choice(field.name, choice)
            for field in fields(cls)
            for choice in cls.choices_for(field.name)
            if choice != field.default
        }


_BehaviorT = TypeVar("_BehaviorT", bound=UnspecifiedBehavior)


def depends_on(run: Callable[[_BehaviorT], Sequence[torch.Tensor]], base: _BehaviorT) -> list[str]:
    """Returns the behaviors for which another choice changes the results.

    A behavior that occurs without effect, such as an out-of-range gather whose result is masked, is not among
    them. Other inputs may lead to other behaviors.

    Args:
        run: runs a blob on some inputs, with these choices.
        base: the choices for all behaviors except the one that is varied, without "raise".
    """
    if not _raises(run, base.strict()):
        return []
    found = []
    for field in fields(base):
        if not _raises(run, base.with_choice(field.name, _RAISE)):
            continue
        first, *others = [
            run(base.with_choice(field.name, choice)) for choice in base.choices_for(field.name)
        ]
        # A behavior with one choice cannot be shown to make no difference.
        if not others or not all(_equal(first, other) for other in others):
            found.append(field.name)
    return found


def _raises(run: Callable[[_BehaviorT], Sequence[torch.Tensor]], choices: _BehaviorT) -> bool:
    try:
        run(choices)
    except DelegatecError as error:
        if [item.code for item in error.diagnostics] != ["DC440"]:
            raise
        return True
    return False


def _equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(
        torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(one, other, strict=True)
    )
