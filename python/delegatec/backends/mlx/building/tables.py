# SPDX-License-Identifier: Apache-2.0
"""A finished draft as the tables of the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from delegatec_schemas import mlx_graph as schema

from delegatec.backends.mlx.building.draft import Draft
from delegatec.backends.mlx.building.slots import Slots
from delegatec.backends.mlx.building.values import (
    Array,
    Chain,
    Float,
    Index,
    Int,
    Operation,
    Position,
    Scalar,
    Value,
)
from delegatec.backends.mlx.dtypes import TO_FORMAT
from delegatec.backends.mlx.operands import new_node
from delegatec.edge.symbols import largest, smallest

VERSION = "1"


def graph_of(draft: Draft, slots: Slots) -> schema.GraphT:
    """Returns the graph of a draft.

    Args:
        draft: the graph, without dead code.
        slots: of its values.
    """
    chains, initial = list(draft.walk()), draft.initial()
    if initial.operations:
        chains.append(initial)
    indices = {id(chain): index for index, chain in enumerate(chains)}
    constants, inputs, outputs, buffers = slots.counts
    return schema.GraphT(
        version=VERSION,
        numConstants=constants,
        numInputs=inputs,
        numOutputs=outputs,
        numBuffers=buffers,
        numTemporaries=slots.temporaries,
        numValues=slots.values,
        chains=[
            schema.ChainT([_instruction(each, slots, indices) for each in chain.operations])
            for chain in chains
        ],
        initChain=len(chains) - 1 if initial.operations else -1,
        inputs=[_slot(each, slots) for each in draft.inputs],
        outputs=[_slot(each, slots) for each in draft.outputs],
        buffers=[_slot(each, slots) for each in draft.buffers],
        names=[
            schema.NameT(constant.key, _slot(array, slots)) for array, constant in draft.constants.items()
        ],
        tensors=[_description(each) for each in slots.described],
    )


def _slot(value: Value, slots: Slots) -> schema.SlotT:
    kind = schema.SlotType.INT if isinstance(value, Scalar) else schema.SlotType.TENSOR
    return schema.SlotT(slots.of(value), kind)


def _description(array: Array) -> schema.TensorMetaT:
    sizes = [_size(each) for each in array.shape]
    return schema.TensorMetaT(sizes=sizes, dtype=TO_FORMAT[array.dtype])


def _size(size: Any) -> schema.SizeT:
    if not isinstance(size, torch.SymInt):
        return schema.SizeT(int(size))
    most = largest(size)
    return schema.SizeT(-1, smallest(size), -1 if most is None else most)


def _instruction(operation: Operation, slots: Slots, chains: Mapping[int, int]) -> schema.InstructionT:
    kind, table = new_node(operation.name)
    for name, content in operation.fields.items():
        assert hasattr(table, name), f"{operation.name} has no field {name}"
        setattr(table, name, _field(content, slots, chains))
    return schema.InstructionT(kind, table)


def _field(content: Any, slots: Slots, chains: Mapping[int, int]) -> Any:
    if isinstance(content, list):
        return [_field(each, slots, chains) for each in content]
    if isinstance(content, Array):
        return schema.TensorT(slots.of(content))
    if isinstance(content, Scalar):
        return schema.ValueT(slots.of(content))
    if isinstance(content, Chain):
        return chains[id(content)]
    if isinstance(content, (Int, Float)):
        table = schema.IntT if isinstance(content, Int) else schema.FloatT
        if isinstance(content.value, Scalar):
            return table(value=_field(content.value, slots, chains), isValue=True)
        return table(literal=content.value)
    if isinstance(content, Index):
        return _index(content, slots)
    if isinstance(content, Position):
        is_value = isinstance(content.value, Scalar)
        field = {"value" if is_value else "tensor": _field(content.value, slots, chains)}
        return schema.ValueOrTensorT(isValue=is_value, **field)
    return content


def _index(content: Index, slots: Slots) -> schema.IndexT:
    if isinstance(content.value, Scalar):
        return schema.IndexT(value=schema.ValueT(slots.of(content.value)), kind=1)
    if isinstance(content.value, Array):
        return schema.IndexT(tensor=schema.TensorT(slots.of(content.value)), kind=2)
    return schema.IndexT(literal=content.value)
