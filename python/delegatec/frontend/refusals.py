# SPDX-License-Identifier: Apache-2.0
"""Diagnostics for modules that torch.export cannot trace."""

from __future__ import annotations

import re
from typing import Final

import torch
from torch._dynamo.exc import TorchDynamoException, UserError, UserErrorType
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.diagnostics.exceptions import exception_text, first_line
from delegatec.frontend.causes import cause_of
from delegatec.frontend.constraints import violation
from delegatec.frontend.data_dependence import remedy
from delegatec.frontend.model import Method
from delegatec.frontend.user_errors import missing_module
from delegatec.frontend.vision_operators import SAMPLES
from delegatec.frontend.workspace import Workspace, preferred

_DATA_DEPENDENT = (GuardOnDataDependentSymNode, DataDependentOutputException)
_CONTROL_FLOW = (UserErrorType.DYNAMIC_CONTROL_FLOW, UserErrorType.DYNAMIC_DIM)
_SHAPES = (UserErrorType.CONSTRAINT_VIOLATION, UserErrorType.INVALID_INPUT)
_BOOKKEEPING: Final = (
    "This higher order operator doesn't work",
    "Higher Order Operator:",
    "Explanation:",
    "Hint:",
    "Developer debug context:",
    "For more details",
)
# Part of torch's reason -> what to do, if torch.export cannot trace a call.
_REMEDIES: Final = {
    "linalg_lstsq": "solve systems of constants outside of forward; for others, use torch.linalg.solve",
    SAMPLES: "pass a positive sampling_ratio, such as 2",
    "PendingUnbackedSymbolNotFound": "compute the indices outside of forward, and register them as a buffer",
}
_RECURRENT: Final = "; or omit strict=True, with which torch unrolls nn.LSTM, GRU and RNN"
_REWRITE: Final = "rewrite this line with torch operators on tensors"
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


def refusal(
    error: BaseException,
    module: torch.nn.Module,
    method: Method,
    where: SourceLocation | None,
    workspace: Workspace,
    strict: bool,
) -> Diagnostic:
    """Returns why a method could not be exported.

    Args:
        error: the exception of torch.export.
        module: the module, in eval mode.
        method: the method, and how it was called.
        where: the line that created the Model.
        workspace: the location of the user's files.
        strict: whether torch.export traced bytecode.
    """
    eager = _eager_error(module, method)
    if isinstance(eager, TorchDynamoException):
        # in eager mode, torch runs control flow by tracing its bodies
        return _body_error(eager, preferred(workspace.frames(eager.__traceback__)) or where)
    failed = eager or error
    location = preferred(workspace.frames(failed.__traceback__)) or where
    if missing := missing_module(failed, location):
        return missing
    if cause := cause_of(failed):
        return Diagnostic(
            code=cause.code or ("DC110" if eager else "DC111"),
            message=f"{method.function}() {cause.message}",
            location=location,
            expected=cause.expected,
            help=cause.help,
        )
    if eager is not None:
        own = "correct this line, or " if location != where else "check "
        return Diagnostic(
            code="DC110",
            message=f"{method.function}() fails on its example inputs: {_sentence(eager)}",
            location=location,
            expected=f"the arguments of {type(module).__name__}.{method.function}",
            help=f"{own}the example inputs of delegatec.Model" + (f" at {where}" if where else ""),
        )
    reason = _sentence(error)
    kind = error.error_type if isinstance(error, UserError) else None
    if isinstance(error, _DATA_DEPENDENT) or kind in _CONTROL_FLOW:
        return Diagnostic(
            code="DC112",
            message=f"control flow depends on the values of a tensor: {reason}",
            location=location,
            expected="control flow that depends on shapes and constants only",
            help=remedy(error, location),
        )
    if isinstance(error, ConstraintViolationError) or kind in _SHAPES:
        detail, help = violation(_ANSI.sub("", str(error)))
        is_recurrent = any(isinstance(each, torch.nn.RNNBase) for each in module.modules())
        if strict and is_recurrent and "it fixes" in detail:
            help += _RECURRENT
        return Diagnostic(
            code="DC113",
            message=f"dynamic_shapes do not match the module: {detail}",
            location=where,
            expected="ranges of dimensions that the module accepts",
            help=help,
        )
    return Diagnostic(
        code="DC111",
        message=f"torch.export cannot trace {method.function}(): {reason}",
        location=location,
        help=next((help for cause, help in _REMEDIES.items() if cause in reason), _REWRITE),
    )


def _body_error(error: BaseException, location: SourceLocation | None) -> Diagnostic:
    """Returns a diagnostic for a body of control flow that torch cannot capture."""
    cause = error
    while (before := cause.__cause__ or cause.__context__) is not None:
        cause = before
    lines = [line.strip() for line in _ANSI.sub("", str(cause)).splitlines() if line.strip()]
    relevant = [line for line in lines if not line.startswith(_BOOKKEEPING)]
    hints = [line.removeprefix("Hint: ") for line in lines if line.startswith("Hint: Replace")]
    return Diagnostic(
        code="DC207",
        message=f"torch cannot capture a body of control flow: {' '.join(relevant[:2])}",
        location=location,
        expected="bodies that take and return tensors of the same shapes and dtypes, each tensor once",
        help=hints[0] if hints else "return the same shapes and dtypes from all branches and iterations",
    )


def _eager_error(module: torch.nn.Module, method: Method) -> BaseException | None:
    try:
        with torch.no_grad():
            method.of(module)(*method.example_inputs, **dict(method.example_kwargs or {}))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code ran
        return error
    return None


def _sentence(error: BaseException) -> str:
    """Returns the first line of an exception, without colors and torch's internals."""
    torchs = isinstance(error, (UserError, GuardOnDataDependentSymNode))
    return (first_line(error) if torchs else exception_text(error)).partition(" (unhinted:")[0]
