# SPDX-License-Identifier: Apache-2.0
"""Data for rules: the pairs of a program's complex nodes, and new constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch.fx import Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.arguments import shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.complex.pair import Pair, filled
from delegatec.edge.handles import Origin
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram


def is_complex(value: Any) -> bool:
    """Whether a node is a complex tensor, or several tensors with a complex one among them."""
    val = value.meta.get("val") if isinstance(value, Node) else value
    if isinstance(val, (tuple, list)):
        return any(is_complex(item) for item in val)
    return isinstance(val, torch.Tensor) and val.is_complex()


class UnsupportedError(Exception):
    """A call that cannot be lowered to real numbers; the diagnostic says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Values:
    """The pairs of a program's complex nodes.

    Attributes:
        program: the program.
        origins: origins of its method.
        pairs: complex node -> its parts.
        constants: receives new constants, and declares them at the end.
        unsupported: complex nodes without a pair: rejected ones, and those that depend on them.
    """

    def __init__(self, program: EdgeProgram, origins: Mapping[int, Origin]) -> None:
        self.program = program
        self.fixed = program.fixed_constants()
        self.origins = origins
        self.pairs: dict[Node, Pair] = {}
        self.constants = NewConstants(program)
        self.unsupported: set[Node] = set()
        self._memo: dict[Hashable, Node] = {}

    def pair(self, value: Any) -> Pair:
        """Returns the parts of an argument: a complex node, a real one or a scalar."""
        if isinstance(value, Node):
            return self.pairs[value] if value in self.pairs else Pair(value, 0.0)
        scalar = complex(value)
        return Pair(scalar.real, scalar.imag)

    def tensors(self, b: Builder, value: Node, kind: torch.dtype) -> Pair:
        """Returns the parts of a node as tensors of the real dtype `kind` and the node's sizes."""
        real, imag = self.pair(value)
        if isinstance(value.meta["val"], (tuple, list)):
            return Pair(real, imag)
        return Pair(filled(b, real, shape_of(value), kind), filled(b, imag, shape_of(value), kind))

    def constant(
        self, b: Builder, key: Hashable, origin: str, make: Callable[[], torch.Tensor], like: Node
    ) -> Node:
        """Returns a constant of the program, created once per key.

        Args:
            b: the builder.
            key: everything that the value depends on.
            origin: name of the constant.
            make: computes the value.
            like: the node that uses it.
        """
        if key not in self._memo:
            value = make()
            node = self._memo[key] = self.constants.add(origin, value, like)
            node.meta["val"] = b.empty(value.shape, value.dtype)
        return self._memo[key]

    def split_constant(self, b: Builder, node: Node) -> None:
        """Sets the parts of a complex constant, as constants."""
        # conjugation is not visible anywhere else
        value = self.program.constants[node.name].resolve_conj()
        parts = {"real": value.real, "imag": value.imag}
        name = self.constants.names[node.name]
        real, imag = (
            self.constant(b, (node, part), f"{name}.{part}", parts[part].contiguous, node) for part in parts
        )
        self.pairs[node] = Pair(real, imag)
