# SPDX-License-Identifier: Apache-2.0
"""Graphs of one node, for tests of the reference executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from delegatec_schemas import mlx_graph as schema

from delegatec.backends.mlx.blob import read_blob, write_blob
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.backends.mlx.operands import new_node
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.backends.mlx.reference.unspecified import DEFAULT, Unspecified
from delegatec.delegation.protocol.parts import join


def integer(value: int) -> schema.IntT:
    """Returns a literal."""
    return schema.IntT(literal=value)


def run_node(
    name: str,
    operands: Sequence[str],
    inputs: Sequence[torch.Tensor],
    unspecified: Unspecified = DEFAULT,
    results: int = 1,
    **fields: Any,
) -> list[torch.Tensor]:
    """Runs a node that reads the inputs of a graph, and writes its outputs.

    Args:
        name: of the node.
        operands: fields with the inputs, in order; one that ends with "*" is a list of all that are left.
        inputs: the tensors.
        unspecified: choices for unspecified behavior.
        results: number of outputs.
        **fields: its other fields.
    """
    kind, table = new_node(name)
    slots = [schema.TensorT(index) for index in range(len(inputs))]
    outs = [schema.TensorT(len(inputs) + index) for index in range(results)]
    for index, field in enumerate(operands):
        if field.endswith("*"):
            setattr(table, field.removesuffix("*"), slots[index:])
        else:
            setattr(table, field, slots[index])
    setattr(table, "outs" if hasattr(table, "outs") else "out", outs if hasattr(table, "outs") else outs[0])
    for field, content in fields.items():
        assert hasattr(table, field), field
        setattr(table, field, content)
    graph = schema.GraphT(
        version="1",
        numInputs=len(inputs),
        numOutputs=results,
        chains=[schema.ChainT([schema.InstructionT(kind, table)])],
        inputs=[schema.SlotT(slot.id) for slot in slots],
        outputs=[schema.SlotT(slot.id) for slot in outs],
        tensors=[
            schema.TensorMetaT([schema.SizeT(size) for size in each.shape], TO_FORMAT[each.dtype])
            for each in inputs
        ],
    )
    blob = join(write_blob(graph))
    return MlxReferenceExecutor(read_blob(memoryview(blob)), unspecified)(inputs)
