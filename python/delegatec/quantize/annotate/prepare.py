# SPDX-License-Identifier: Apache-2.0
"""Insertion of observers by torchao, as a quantizer annotates the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from torch.fx import GraphModule
from torchao.quantization.pt2e import prepare as torchao_prepare
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e
from torchao.quantization.pt2e.quantizer import Quantizer, SharedQuantizationSpec


def prepare(model: GraphModule, quantizer: Quantizer) -> GraphModule:
    """Returns a graph with observers; `model` is not to be used any more.

    torchao looks for the dtype of a value that shares its parameters in the group of all that share them, of
    which any may be the first: if that one shares another's, too, the search has no end. What it shares with
    decides.

    Args:
        model: a graph without observers.
        quantizer: annotates it.
    """
    with patch.object(torchao_prepare, "_unwrap_shared_qspec", _specification):
        prepared: GraphModule = prepare_pt2e(model, quantizer)
    return prepared


def _specification(found: Any, specifications: Mapping[Any, Any], _groups: Any) -> Any:
    while isinstance(found, SharedQuantizationSpec):
        found = specifications[found.edge_or_node]
    return found
