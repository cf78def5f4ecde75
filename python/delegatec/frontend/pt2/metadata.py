# SPDX-License-Identifier: Apache-2.0
"""Metadata of the nodes of a graph."""

from __future__ import annotations

import json
from typing import Any, Final

from delegatec.frontend.pt2.fields import MalformedError, record, text

# Between the entries of a module stack.
SEPARATOR: Final = ";"
_Stack = dict[str, tuple[str, str]]


class Metadata:
    """Reads the metadata that the compiler uses; the rest is ignored: torch imports what some of it names."""

    def __init__(self) -> None:
        self._stacks: dict[str, _Stack] = {}

    def read(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Returns the metadata of a node."""
        found: dict[str, Any] = {}
        if trace := stored.get("stack_trace"):
            found["stack_trace"] = text(trace, "stack_trace")
        if stack := stored.get("nn_module_stack"):
            found["nn_module_stack"] = dict(self._stack(text(stack, "nn_module_stack")))
        if custom := stored.get("custom"):
            try:
                found["custom"] = record(json.loads(text(custom, "custom")), "custom")
            except (ValueError, RecursionError) as error:
                raise MalformedError("custom metadata is not JSON") from error
        return found

    def _stack(self, written: str) -> _Stack:
        if written not in self._stacks:
            modules = [_module(item) for item in written.split(SEPARATOR)]
            # torch stores names with its separators unchanged.
            self._stacks[written] = {each[0]: each[1:] for each in modules if each}
        return self._stacks[written]


def parts_of(item: str) -> list[str]:
    """Returns the parts of an entry of a module stack, "key,path,class", which may contain calls."""
    parts, depth, start = list[str](), 0, 0
    for end, character in enumerate(item):
        depth += (character in "[(") - (character in ")]")
        if character == "," and not depth:
            parts.append(item[start:end])
            start = end + 1
    return [*parts, item[start:]]


def _module(item: str) -> tuple[str, str, str] | None:
    parts = item.split(",")
    if len(parts) != 3:
        parts = parts_of(item)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None
