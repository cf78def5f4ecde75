# SPDX-License-Identifier: Apache-2.0
"""Behaviour of a runtime that neither its documentation nor its source specifies.

A blob is right only if its results are the same for every choice. A run takes one choice for each behaviour;
`variants()` lists the runs that a test compares, `strict()` stops wherever a result would depend on one, and
`depends_on` finds the behaviours that a blob's results depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Final, Self, TypeVar, get_args, get_type_hints

import torch

from delegatec.diagnostics import DelegatecError, Diagnostic

_REFUSE: Final = "refuse"


@dataclass(frozen=True)
class UnspecifiedBehaviour:
    """A choice for each behaviour. A backend's subclass has a field for each, which is a `Literal`.

    The first choice is the default: what is documented for like operations, or was measured. "refuse" stops a
    run where the behaviour would show.

    Attributes:
        runtime: whose behaviour it is, for messages.
    """

    runtime: ClassVar[str]

    def settle(self, behaviour: str, occurs: Callable[[], torch.Tensor | bool], what: str) -> str:
        """The choice for a behaviour that may occur in an operation.

        Args:
            behaviour: an attribute.
            occurs: says whether it does, for the message; is asked only where the choice is to refuse.
            what: how a message names what would occur.

        Raises:
            DelegatecError: DC440 if it occurs and the choice is to refuse.
        """
        choice: str = getattr(self, behaviour)
        if choice == _REFUSE:
            found = occurs()
            if bool(found.any()) if isinstance(found, torch.Tensor) else found:
                message = f"what {self.runtime} does is not specified for {what}"
                raise DelegatecError([Diagnostic(code="DC440", message=message)])
        return choice

    def having(self, behaviour: str, choice: str) -> Self:
        """The same choices but for one behaviour."""
        change: dict[str, Any] = {behaviour: choice}
        return replace(self, **change)

    @classmethod
    def choices_of(cls, behaviour: str) -> tuple[str, ...]:
        """What there is to choose from, "refuse" not included; the default comes first."""
        return tuple(choice for choice in get_args(get_type_hints(cls)[behaviour]) if choice != _REFUSE)

    @classmethod
    def strict(cls) -> Self:
        """Refuses every behaviour."""
        refusals: dict[str, Any] = {field.name: _REFUSE for field in fields(cls)}
        return cls(**refusals)

    @classmethod
    def variants(cls) -> dict[str, Self]:
        """One run for each choice that is not the default: "ties=last" -> the choices of that run."""
        return {
            f"{field.name}={choice}": cls().having(field.name, choice)
            for field in fields(cls)
            for choice in cls.choices_of(field.name)
            if choice != field.default
        }


_BehaviourT = TypeVar("_BehaviourT", bound=UnspecifiedBehaviour)


def depends_on(run: Callable[[_BehaviourT], Sequence[torch.Tensor]], base: _BehaviourT) -> list[str]:
    """The behaviours of which another choice gives other results.

    A behaviour that may occur without a consequence, such as a look-up out of range that a mask drops, is not
    among them. For other inputs there can be others.

    Args:
        run: runs a blob on some inputs, with these choices.
        base: the choices for the behaviours that are not varied; refuses none.
    """
    if not _is_refused(run, base.strict()):
        return []
    found = []
    for field in fields(base):
        if not _is_refused(run, base.having(field.name, _REFUSE)):
            continue
        first, *others = [run(base.having(field.name, choice)) for choice in base.choices_of(field.name)]
        # A behaviour with one choice cannot be shown to make no difference.
        if not others or not all(_equal(first, other) for other in others):
            found.append(field.name)
    return found


def _is_refused(run: Callable[[_BehaviourT], Sequence[torch.Tensor]], choices: _BehaviourT) -> bool:
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
