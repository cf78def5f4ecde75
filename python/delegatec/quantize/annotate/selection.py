# SPDX-License-Identifier: Apache-2.0
"""The calls that are quantized: those in the table, without modules and operators that stay in float."""

from __future__ import annotations

import operator as python
from typing import Any

import torch
from torch.fx import Node

from delegatec.quantize.decompose.decompositions import names_of
from delegatec.quantize.graph.calls import call_of
from delegatec.quantize.operators import Kind, kind_of
from delegatec.quantize.settings import Settings


class Selection:
    """The calls that are quantized.

    Args:
        settings: names the modules, operators and calls that stay in float.
    """

    def __init__(self, settings: Settings) -> None:
        self._modules = settings.float_modules
        self._operators = frozenset(settings.float_operators)
        self._calls = settings.float_calls

    def kind(self, node: Node) -> Kind | None:
        """Returns the kind of a quantized call; None for other nodes."""
        if node.target is python.getitem:
            return self._of_part(node)
        kind = kind_of(node)
        if kind is None or self.stays(node):
            return None
        if any(isinstance(each, Node) for each in node.kwargs.values()):
            return None  # a factor of a sum that is a dynamic size, which torchao does not support
        if kind is Kind.PRODUCED:
            # a conversion from another dtype, or a constant
            return kind if _is_float(node) and not any(map(_is_float, node.all_input_nodes)) else None
        return kind if any(map(_is_float, node.all_input_nodes)) else None

    def _of_part(self, node: Node) -> Kind | None:
        """Values out of a call with several results, such as a split, share its parameters."""
        (call, *_) = node.all_input_nodes
        return Kind.SHARED if self.kind(call) is Kind.SHARED and _is_float(node) else None

    def stays(self, node: Node) -> bool:
        """Whether the settings keep a call in float."""
        if names_of(node.target) & self._operators or call_of(node) in self._calls:
            return True
        paths = [str(path) for path, _ in node.meta.get("nn_module_stack", {}).values()]
        return any(
            path == module or path.startswith(f"{module}.") for path in paths for module in self._modules
        )


def _is_float(value: Any) -> bool:
    tensor = value.meta.get("val")
    return isinstance(tensor, torch.Tensor) and tensor.dtype is torch.float32
