# SPDX-License-Identifier: Apache-2.0
"""Decompositions by torch, which traces the program again and does not accept all that torch.export does."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import exception_text
from delegatec.edge.copied_values import copied_values
from delegatec.edge.rejections import failed_node
from delegatec.edge.source import location_of

_HERE = str(Path(__file__).parent)


def retraced(program: ExportedProgram, table: Mapping[OpOverload, Callable[..., Any]]) -> ExportedProgram:
    """Returns a program with decompositions, which writes only to its buffers.

    Args:
        program: is not changed.
        table: operator -> a function that computes it by others.

    Raises:
        DelegatecError: DC134, torch fails, as for a loop that starts with one tensor twice.
    """
    try:
        result: ExportedProgram = program.run_decompositions(
            {**table, torch.ops.aten.copy.default: copied_values()}
        )
    except (RuntimeError, TypeError, ValueError, LookupError, AssertionError) as error:
        if sum(frame.filename.startswith(_HERE) for frame in traceback.extract_tb(error.__traceback__)) > 1:
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
