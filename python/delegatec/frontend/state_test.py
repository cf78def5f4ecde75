# SPDX-License-Identifier: Apache-2.0
"""State in plain attributes lasts from one call to the next, as state in buffers does."""

from __future__ import annotations

import torch
from torch import nn
from torch.export.graph_signature import InputKind

from delegatec.edge import to_edge
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model


class Cache:
    """Tensors in an object that is not a module."""

    def __init__(self) -> None:
        self.keys = torch.zeros(4, 2)
        self.scale = torch.full((2,), 3.0)


class Attention(nn.Module):
    """Writes into a cache through a view, and reads a constant of it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()

    def forward(self, position: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.cache.keys.view(4, 2).index_copy_(0, position, x)
        return (self.cache.keys * self.cache.scale).sum(0)


def test_a_cache_outside_of_the_buffers_is_state(tmp_path: object) -> None:
    position, x = torch.tensor([1]), torch.ones(1, 2)
    program = export(Model(Attention(), (position, x)))["forward"]
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    assert sorted(kind.name for kind in kinds.values()) == [
        "BUFFER",
        "CONSTANT_TENSOR",
        "USER_INPUT",
        "USER_INPUT",
    ]
    path = f"{tmp_path}/model.pt2"
    archive.save({"forward": program}, path)
    module = archive.load(path).methods["forward"]
    (buffer,) = (s for s in module.graph_signature.input_specs if s.kind is InputKind.BUFFER)
    assert buffer.persistent is False
    eager = Attention()
    edge = to_edge(module)
    assert [spec.kind.name for spec in edge.output_specs] == ["BUFFER_MUTATION", "USER_OUTPUT"]
    (state,) = (spec for spec in edge.input_specs if spec.kind is InputKind.BUFFER)
    assert torch.equal(edge.constants[state.arg.name], eager.cache.keys)
