# SPDX-License-Identifier: Apache-2.0
"""Behavior of the runtime's kernels for empty tensors, where eager mode differs.

Source: measured with the stock runtime of ExecuTorch 1.4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten

_ABORT: Final = frozenset({aten._log_softmax.out, aten.amax.out, aten.amin.out})


def failure(operator: OpOverload, arguments: Mapping[str, Any]) -> str | None:
    """Returns why a kernel fails for operands that eager mode supports.

    Args:
        operator: its overload.
        arguments: by name.
    """
    if operator in _ABORT and arguments["self"].numel() == 0:
        return f"the kernel of {operator} aborts at a tensor without elements"
    if operator is aten.index_select.out and 0 in arguments["self"].shape[arguments["dim"] :][:1]:
        return f"the kernel of {operator} rejects a dimension without elements"
    return None


def shape_of_none(operator: OpOverload, arguments: Mapping[str, Any]) -> list[int] | None:
    """Returns the shape of an empty result; None if it is that of eager mode."""
    if operator is not aten.cat.out or any(each.numel() for each in arguments["tensors"]):
        return None
    # empty operands do not count
    operands: list[Tensor] = arguments["tensors"]
    sizes = list(next((each for each in reversed(operands) if each.dim() != 1), operands[-1]).shape)
    sizes[arguments["dim"]] = 0
    return sizes
