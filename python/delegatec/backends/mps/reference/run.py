# SPDX-License-Identifier: Apache-2.0
"""State of one run of a blob."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.diagnostics import DelegatecError, Diagnostic


def refuse(message: str) -> NoReturn:
    """Stops where the runtime would.

    Raises:
        DelegatecError: DC408.
    """
    raise DelegatecError(
        [Diagnostic(code="DC408", message=f"the MPS runtime cannot run this blob: {message}")]
    )


class Run:
    """Values by id.

    Args:
        values: how many ids there are.
    """

    def __init__(self, values: int) -> None:
        self._values: list[torch.Tensor | None] = [None] * values

    def __getitem__(self, id: int) -> torch.Tensor:
        value = self._values[id] if id >= 0 else None
        if value is None:
            refuse(f"value {id} is read before anything gives it one")
        return value

    def __setitem__(self, id: int, value: torch.Tensor) -> None:
        if id >= 0:
            self._values[id] = value


Semantics = Callable[[Run, Any, NodeT], None]
"""Runs one operation: gets the state, its operands, and the node that it is in."""


def one_dtype(*tensors: torch.Tensor) -> torch.dtype:
    """The dtype of all tensors; MPSGraph stops where they differ."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        refuse(f"operands of one operation have the dtypes {', '.join(sorted(map(str, dtypes)))}")
    return tensors[0].dtype


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """float16 as float32, to compute in; others as they are."""
    return tensor.float() if tensor.dtype == torch.float16 else tensor
