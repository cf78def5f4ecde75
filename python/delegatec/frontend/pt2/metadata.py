# SPDX-License-Identifier: Apache-2.0
"""Metadata of the nodes of a graph."""

from __future__ import annotations

import json
from typing import Any

from delegatec.frontend.pt2.fields import MalformedError, fail, record, text

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
            self._stacks[written] = dict(_module(item) for item in written.split(";"))
        return self._stacks[written]


def _module(item: str) -> tuple[str, tuple[str, str]]:
    """Returns the parts of an entry of a module stack, "key,path,class"; they may contain calls."""
    parts, depth, start = item.split(","), 0, 0
    if len(parts) != 3:
        parts = []
        for end, character in enumerate(item):
            depth += (character in "[(") - (character in ")]")
            if character == "," and not depth:
                parts.append(item[start:end])
                start = end + 1
        parts.append(item[start:])
    if len(parts) != 3:
        fail("invalid nn_module_stack")
    return parts[0], (parts[1], parts[2])
