# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import torch
from delegatec_schemas import vulkan_graph as schema
from torch import nn

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.memory.representation import Representation
from delegatec.backends.vulkan.memory.transitions import Transition, transitions
from delegatec.backends.vulkan.testing import calls, compile_module, graph_of

X = torch.randn(1, 4, 4, 4)


def test_a_transition_reads_and_writes_padded_tensors() -> None:
    """Two channels take a texel of four."""
    model = Call(lambda x: nn.functional.linear(nn.functional.max_pool2d(x, 1), torch.ones(4, 4)))
    graph = graph_of(compile_module(model, (torch.randn(1, 2, 4, 4),)))
    (found,) = transitions(graph)
    before, after = (graph.values[id].content for id in (found.source, found.result))
    assert (before.storageType, before.memoryLayout) == Representation.CHANNELS.value
    assert (after.storageType, after.memoryLayout) == Representation.WIDTH.value
    assert found.moved == 4 * (64 + 32)


def test_packing_is_not_a_transition() -> None:
    compiled = compile_module(Call(lambda x: x * torch.arange(4.0) + x), (X,))
    assert "prepack" in calls(compiled)
    assert list(transitions(graph_of(compiled))) == []


def test_transitions_of_another_compiler() -> None:
    """Its copies have other names, and may keep the representation."""

    def tensor(placement: Representation) -> schema.ValueT:
        kind = schema.DataType.FLOAT32
        return schema.ValueT(
            schema.Content.Tensor, schema.TensorT(kind, [2, 5], -1, -1, *placement.value, kind)
        )

    placements = (Representation.BUFFER, Representation.WIDTH, Representation.WIDTH)
    values = [*map(tensor, placements), schema.ValueT(schema.Content.Null, schema.NullT())]
    chain = [
        schema.OperatorCallT(0, b"dim_order_ops._to_dim_order_copy.default", [0, 3, 3, 1]),
        schema.OperatorCallT(1, b"aten.clone.default", [1, 3, 2]),
        schema.OperatorCallT(2, b"et_vk.prepack.default", [0, 2]),
    ]
    assert list(transitions(schema.GraphT(chain=chain, values=values))) == [Transition(0, 0, 1, 40 + 64)]


def test_bools_become_floats_in_textures() -> None:
    """The runtime's conversion has buffers only."""
    compiled = compile_module(Call(lambda x: nn.functional.max_pool2d((x > 0).float(), 2)), (X,))
    assert calls(compiled) == ["gt.Tensor", "prepack", "prepack", "where.self", "max_pool2d_with_indices"]
