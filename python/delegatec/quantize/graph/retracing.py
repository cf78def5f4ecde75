# SPDX-License-Identifier: Apache-2.0
"""Decompositions by torch, which traces the program again and does not accept all that torch.export does."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import exception_text
from delegatec.edge.copied_values import copied_values
from delegatec.edge.dropouts import without_dropouts
from delegatec.edge.rejections import failed_node
from delegatec.edge.source import location_of

aten = torch.ops.aten
_PACKAGE = "delegatec.quantize."
_MOVES = frozenset({aten.transpose.int, aten.permute.default})


@contextmanager
def _reshaped_attention(program: ExportedProgram) -> Iterator[None]:
    """Turns views of the transposed result of attention into `reshape`.

    Models call `view` because torch's fused kernel returns heads after tokens in memory. Products do not.
    """
    views = [
        node
        for node in program.graph.find_nodes(op="call_function", target=aten.view.default)
        if _unmoved(node.args[0]).target is aten.scaled_dot_product_attention.default
    ]
    try:
        for node in views:
            node.target = aten.reshape.default
        yield
    finally:
        for node in views:
            node.target = aten.view.default


def _unmoved(node: Node) -> Node:
    while node.target in _MOVES:
        node = node.all_input_nodes[0]
    return node


def retraced(program: ExportedProgram, table: Mapping[OpOverload, Callable[..., Any]]) -> ExportedProgram:
    """Returns a program with decompositions, which writes only to its buffers.

    Args:
        program: is not changed.
        table: operator -> a function that computes it by others.

    Raises:
        DelegatecError: DC134, torch fails, as for a loop that starts with one tensor twice.
    """
    try:
        with _reshaped_attention(program), without_dropouts(program):
            result: ExportedProgram = program.run_decompositions(
                {**table, aten.copy.default: copied_values()}
            )
    except (RuntimeError, TypeError, ValueError, LookupError, AssertionError) as error:
        modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        if sum(name.startswith(_PACKAGE) for name in modules) > 1:
            raise  # a function of the table fails: our bug
        node = failed_node(error, program.graph)
        raise DelegatecError(
            [
                Diagnostic(
                    "DC134",
                    f"torch cannot trace the program again: {exception_text(error).partition(chr(10))[0]}",
                    location=location_of(node.meta.get("stack_trace")) if node else None,
                    node=node.name if node else "",
                    expected="operators and control flow that torch's decompositions accept",
                    help="move this call out of the quantized model, or keep the model in float",
                )
            ]
        ) from error
    return result
