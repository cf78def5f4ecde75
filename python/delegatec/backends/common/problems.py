# SPDX-License-Identifier: Apache-2.0
"""Diagnostics about constants, with the user's names."""

from __future__ import annotations

from torch.fx import Node

from delegatec.diagnostics import Diagnostic
from delegatec.edge.program import EdgeProgram


def beyond_float16(message: str, reader: Node | None) -> Diagnostic:
    """Returns DC406: a constant cannot be converted.

    Args:
        message: the constant, and why not.
        reader: the node that is being lowered.
    """
    return Diagnostic(
        code="DC406",
        message=message,
        location=reader.meta.get("source") if reader is not None else None,
        node=reader.name if reader is not None else "",
        help="compile with precision fp32, or with fp16_overflow saturate, or rescale it",
    )


def name_of(program: EdgeProgram, constant: Node) -> str:
    """Returns the kind of a constant and its name in the model, for messages."""
    for node, spec in zip(program.placeholders(), program.input_specs, strict=True):
        if node is constant:
            return f"{spec.kind.name.lower()} {spec.target or node.name}"
    return constant.name
