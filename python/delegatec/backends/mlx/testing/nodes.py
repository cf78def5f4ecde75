# SPDX-License-Identifier: Apache-2.0
"""Graphs of few nodes that no row emits, for tests of the reference executor."""

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


def node(name: str, **fields: Any) -> schema.InstructionT:
    """Returns an instruction.

    Args:
        name: of the node.
        **fields: its fields; others have their defaults.
    """
    kind, table = new_node(name)
    for field, content in fields.items():
        assert hasattr(table, field), field
        setattr(table, field, content)
    return schema.InstructionT(kind, table)


def node_of_inputs(
    name: str, operands: Sequence[str], inputs: int, results: int = 1, **fields: Any
) -> schema.InstructionT:
    """Returns an instruction that reads the inputs of a graph, and writes its outputs.

    Args:
        name: of the node.
        operands: fields with the inputs, in order; one that ends with "*" is a list of all that are left.
        inputs: number of inputs.
        results: number of outputs.
        **fields: its other fields.
    """
    slots = [schema.TensorT(index) for index in range(inputs)]
    outs = [schema.TensorT(inputs + index) for index in range(results)]
    for index, field in enumerate(operands):
        fields[field.removesuffix("*")] = slots[index:] if field.endswith("*") else slots[index]
    _, table = new_node(name)
    fields |= {"outs": outs} if hasattr(table, "outs") else {"out": outs[0]}
    return node(name, **fields)


def blob_of(
    chains: Sequence[Sequence[schema.InstructionT]],
    inputs: Sequence[torch.Tensor],
    results: int = 1,
    temporaries: int = 0,
    values: int = 0,
) -> bytes:
    """Returns a blob. Slots are those of the inputs, of the outputs, and of temporaries.

    Args:
        chains: the first is the main chain.
        inputs: tensors of the shapes and dtypes of the inputs.
        results: number of outputs.
        temporaries: number of other slots of tensors.
        values: number of slots of values.
    """
    graph = schema.GraphT(
        version="1",
        numInputs=len(inputs),
        numOutputs=results,
        numTemporaries=temporaries,
        numValues=values,
        chains=[schema.ChainT(list(instructions)) for instructions in chains],
        inputs=[schema.SlotT(index) for index in range(len(inputs))],
        outputs=[schema.SlotT(len(inputs) + index) for index in range(results)],
        tensors=[
            schema.TensorMetaT([schema.SizeT(size) for size in each.shape], TO_FORMAT[each.dtype])
            for each in inputs
        ],
    )
    return join(write_blob(graph))


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
        operands: as of `node_of_inputs`.
        inputs: the tensors.
        unspecified: choices for unspecified behavior.
        results: number of outputs.
        **fields: its other fields.
    """
    blob = blob_of([[node_of_inputs(name, operands, len(inputs), results, **fields)]], inputs, results)
    return MlxReferenceExecutor(read_blob(memoryview(blob)), unspecified)(inputs)
