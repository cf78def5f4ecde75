# SPDX-License-Identifier: Apache-2.0
"""Patterns of the peer's quantizer: it traces twelve for each model, which took most of the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from unittest.mock import patch

from executorch.backends.xnnpack.quantizer import xnnpack_quantizer_utils as peer
from torch.fx import GraphModule

_trace = peer._get_aten_graph_module_for_pattern
_traced: dict[tuple[Any, ...], GraphModule] = {}


@contextmanager
def patterns_traced_once() -> Iterator[None]:
    """Lets the quantizer match copies of patterns that it has traced for another model."""

    def traced(pattern: Any, inputs: tuple[Any, ...], is_cuda: bool = False) -> GraphModule:
        # a function inside of another: the variables around it tell one from the others
        around = tuple(cell.cell_contents for cell in pattern.fn.__closure__)
        key = (*around, *(each.shape for each in inputs), is_cuda)
        if key not in _traced:
            _traced[key] = _trace(pattern, inputs, is_cuda)
        return deepcopy(_traced[key])

    with patch.object(peer, "_get_aten_graph_module_for_pattern", traced):
        yield
