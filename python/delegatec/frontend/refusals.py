# SPDX-License-Identifier: Apache-2.0
"""What torch.export says of a module that it cannot trace, in one sentence, at the user's line."""

from __future__ import annotations

import re
from typing import Final

import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.frontend.model import Method
from delegatec.frontend.workspace import Workspace, preferred

_CONTROL_FLOW_HELP: Final = (
    "compute both results and choose with torch.where, use torch.cond, or make the choice from shapes or constants"
)
_CONTROL_FLOW = (UserErrorType.DYNAMIC_CONTROL_FLOW, UserErrorType.DYNAMIC_DIM)
_SHAPES = (UserErrorType.CONSTRAINT_VIOLATION, UserErrorType.INVALID_INPUT)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


def refusal(
    error: Exception, module: torch.nn.Module, method: Method, where: SourceLocation | None, workspace: Workspace
) -> Diagnostic:
    """Why one method could not be exported.

    Args:
        error: what torch.export raised.
        module: the module, in eval mode.
        method: how it was called.
        where: the line that made the Model.
        workspace: where the user's files lie.
    """
    eager = _eager_error(module, method)
    if eager is not None:
        return Diagnostic(
            code="DC110",
            message=f"{method.function}() does not run with its example inputs: {_sentence(eager)}",
            location=preferred(workspace.frames(eager.__traceback__)) or where,
            expected=f"the arguments of {type(module).__name__}.{method.function}",
            help="check the example inputs of delegatec.Model" + (f" at {where}" if where else ""),
        )
    location = preferred(workspace.frames(error.__traceback__)) or where
    reason = _sentence(error)
    kind = error.error_type if isinstance(error, UserError) else None
    if isinstance(error, GuardOnDataDependentSymNode) or kind in _CONTROL_FLOW:
        return Diagnostic(
            code="DC112",
            message=f"control flow depends on the values of a tensor: {reason}",
            location=location,
            expected="control flow that shapes and constants decide",
            help=_CONTROL_FLOW_HELP,
        )
    if isinstance(error, ConstraintViolationError) or kind in _SHAPES:
        return Diagnostic(
            code="DC113",
            message=f"dynamic_shapes do not fit: {_constraint(error)}",
            location=where,
            expected="dimensions whose ranges the module keeps",
            help="correct dynamic_shapes of delegatec.Model as torch suggests",
        )
    return Diagnostic(
        code="DC111",
        message=f"torch.export cannot trace {method.function}(): {reason}",
        location=location,
        help="use a form of this line that torch.export takes; torch.export.export(module, inputs) shows all of its reasons",
    )


def _eager_error(module: torch.nn.Module, method: Method) -> Exception | None:
    try:
        with torch.no_grad():
            getattr(module, method.function)(*method.example_inputs, **dict(method.example_kwargs or {}))
    except Exception as error:
        return error
    return None


def _sentence(error: BaseException) -> str:
    """The first line of an exception, without colours and without what torch adds on where to read more."""
    lines = [line.strip() for line in _ANSI.sub("", str(error)).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return f"{type(error).__name__}: {text}".rstrip(": ").removeprefix("UserError: ")


def _constraint(error: Exception) -> str:
    lines = [line.strip(" -") for line in _ANSI.sub("", str(error)).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Suggested fixes", "For more information", "The error above"))]
    return " ".join(told[:3])

