# SPDX-License-Identifier: Apache-2.0
"""Runs an edge program in eager, on real tensors: what its graph says, before anything is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Interpreter, Node
from torch.utils import _pytree as pytree

from delegatec.edge.program import EdgeProgram


def interpret(program: EdgeProgram, inputs: Sequence[Any]) -> list[Any]:
    """Runs a program once.

    Args:
        program: it stays as it is, its mutable buffers too.
        inputs: what the caller passes, flat, in the order of `program.user_inputs()`.

    Returns:
        One result for each of `program.output_specs`, in their order: the user's outputs, flat, and the new
        value of every buffer or input that the program writes to.

    Raises:
        ValueError: there are more or fewer inputs than the program takes.
    """
    wanted = [node.name for node in program.user_inputs()]
    if len(wanted) != len(inputs):
        raise ValueError(
            f"{program.method} takes {len(wanted)} inputs ({', '.join(wanted)}), got {len(inputs)}"
        )
    given = dict(zip(wanted, inputs, strict=True))
    arguments = [
        given[node.name] if node.name in given else program.constants[node.name]
        for node in program.placeholders()
    ]
    with torch.no_grad():
        results = _DenseInterpreter(program.graph_module).run(*arguments)
    return list(results)


class _DenseInterpreter(Interpreter):
    """Keeps every tensor row-major: the edge program has no strides, and views rely on it."""

    def run_node(self, n: Node) -> Any:
        return _dense(super().run_node(n)) if n.op != "output" else super().run_node(n)


def _dense(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, value)
