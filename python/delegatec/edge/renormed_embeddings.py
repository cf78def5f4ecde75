# SPDX-License-Identifier: Apache-2.0
"""Embeddings with `max_norm`, whose rows eager mode scales down in place when it looks them up."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

aten = torch.ops.aten


def renorm_embeddings(exported: ExportedProgram, kept: Collection[str]) -> None:
    """Scales all rows of such weights at build time, and removes the operators that would do it at run time.

    A row is scaled once: at the next lookup, its norm is at the limit. Weights with other readers, which see
    rows that were never looked up, keep the operator.

    Args:
        exported: edited in place, with its weights.
        kept: fully qualified names of weights that must not be replaced by weights derived from them.
    """
    parameters = {
        spec.arg.name: spec.target
        for spec in exported.graph_signature.input_specs
        if spec.kind is InputKind.PARAMETER and spec.target not in kept
    }
    for node in exported.graph.find_nodes(op="call_function", target=aten.embedding_renorm_.default):
        alias, indices, limit, norm = node.args
        weight = alias.args[0] if alias.target is aten.detach.default else alias
        name = parameters.get(weight.name)
        readers = {*weight.users, *alias.users} - {alias, node}
        if name is None or node.users or not all(_looks_up(reader, indices) for reader in readers):
            continue
        rows: torch.Tensor = exported.state_dict[name].detach().clone()
        torch.embedding_renorm_(rows, torch.arange(len(rows)), limit, norm)
        exported.state_dict[name] = torch.nn.Parameter(rows, requires_grad=False)
        exported.graph.erase_node(node)


def _looks_up(reader: Any, indices: Any) -> bool:
    return reader.target is aten.embedding.default and reader.args[1] is indices
