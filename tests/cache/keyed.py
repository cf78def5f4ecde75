# SPDX-License-Identifier: Apache-2.0
"""A target, and other values of its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

Values = Mapping[str, str]
"""Attribute -> its value in Starlark."""

METRIC: Final[Values] = {"deps": '[":library"]', "metric": '"second:top1"'}
"""Of each target that measures: a search for layers in float, and tests of accuracy."""


@dataclass(frozen=True)
class Keyed:
    """A target of a rule.

    Attributes:
        rule: the rule's name.
        own: the target's attributes.
        others: for each attribute of the rule, another value, with which its actions have another key.
        unkeyed: the same for attributes that change no action of the target.
        shown_by: the target whose actions count; by default the target itself.
        set_by: attribute of a rule -> that of its macro, if the macro has another one.
    """

    rule: str
    own: Values
    others: Values
    unkeyed: Values = field(default_factory=dict)
    shown_by: str = ""
    set_by: Values = field(default_factory=dict)

    def values(self) -> list[tuple[str, str]]:
        """Returns the other values of all attributes."""
        return [*self.others.items(), *self.unkeyed.items()]

    def declared(self, name: str, attribute: str = "", value: str = "") -> str:
        """Returns the declaration of the target, optionally with another value of an attribute."""
        values = {**self.own, **({self.set_by.get(attribute, attribute): value} if attribute else {})}
        return (
            f"{self.rule}(name = {name!r}, {', '.join(f'{key} = {text}' for key, text in values.items())})\n"
        )
