# SPDX-License-Identifier: Apache-2.0
"""Attention to caches that the runtime owns, in the reference executor, compared with eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from delegatec_schemas import mlx_graph as schema
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from delegatec.backends.common.testing import Compiled, compile_program, floats
from delegatec.backends.mlx.backend import MLX
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.caches import LENGTH, Layer, check, compiled
from delegatec.delegation import format_blob_graph
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge

_NOT_CAUSAL: Final = "the mask of its attention is not known to allow all rows up to each token"


class Layers(nn.Module):
    """Layers of attention, one after the other.

    Args:
        *layers: the layers.
        between: what is computed after each.
    """

    def __init__(self, *layers: nn.Module, between: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.between = between

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.between(layer(x, start).transpose(1, 2).flatten(2))
        return x


class Function(nn.Module):
    """Attention as a function of the module, of rows, and of their positions.

    Args:
        function: computes it.
        first: the first value of all elements of the buffers.
        sequences: of the buffers.
    """

    def __init__(self, function: Callable[..., Any], first: float = 0.0, sequences: int = 1) -> None:
        super().__init__()
        self.key = nn.Buffer(torch.full((sequences, 1, LENGTH, 8), first))
        self.value = nn.Buffer(torch.full((sequences, 1, LENGTH, 8), first))
        self.function = function

    def forward(self, x: Tensor, start: Tensor) -> Any:
        positions = start + torch.arange(x.shape[1])
        rows = x[..., :8][:, None].expand(self.key.shape[0], -1, -1, -1)
        return self.function(self, rows, positions)


def _attended(self: Any, rows: Tensor, positions: Tensor, other: Tensor | None = None) -> Tensor:
    """Stores rows, and attends to those up to each; values are at `other` positions."""
    keys = self.key.index_copy_(2, positions, rows)
    values = self.value.index_copy_(2, positions if other is None else other, rows * 2)
    mask = torch.arange(LENGTH) <= positions[:, None]
    return functional.scaled_dot_product_attention(rows, keys, values, mask)


def _table(found: Compiled, name: str = "UpdateAndAttend") -> list[Any]:
    """Returns the instructions of a kind of the only delegate, read from its blob."""
    kind = getattr(schema.Node, name)
    graph = read_blob(memoryview(found.blobs()[0]))
    return [each.node for each in graph.chains[graph.mainChain].instructions if each.nodeType == kind]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_cache_is_not_in_the_program(dtype: torch.dtype, precision: str) -> None:
    layer = Layer(dtype=dtype)
    found = compiled(layer, precision, kv_cache="runtime")
    check(layer, found, 1e-5 if precision == "fp32" and dtype == torch.float32 else 2e-2)
    names = {*operations(found.blobs()[0])}
    assert not names & {"SliceUpdate", "IndexCopy", "Item", "Sdpa", "Full", "LessEqual"}
    graph = read_blob(memoryview(found.blobs()[0]))
    assert (graph.buffers, graph.numBuffers, len(graph.inputs)) == ([], 0, 2)
    (node,) = _table(found)
    assert (node.layer, node.scale, node.dtype) == (0, pytest.approx(8**-0.5), None)


def test_programs_keep_the_cache_by_default() -> None:
    assert _table(compiled(Layer())) == _table(compiled(Layer(), kv_cache="program")) == []


def test_single_tokens() -> None:
    layer = Layer()
    found, eager = compiled(layer, tokens=1, kv_cache="runtime"), copy.deepcopy(layer)
    for position in (0, 1, 2, 1):
        inputs = (floats(1, 1, 32, seed=position), torch.tensor([position]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=1e-5, atol=1e-5)


def test_layers_are_numbered() -> None:
    """Positions are one value for all layers; a layer with a window keeps its buffers."""
    window = Layer(lambda rows, positions: (rows <= positions) & (rows > positions - 4))
    layers = Layers(Layer(), window, Layer())
    found = compiled(layers, kv_cache="runtime")
    check(layers, found)
    nodes = _table(found)
    assert [each.layer for each in nodes] == [0, 1]
    assert len({each.position.id for each in nodes}) == 1
    assert len(read_blob(memoryview(found.blobs()[0])).buffers) == 2
    assert operations(found.blobs()[0]).count("SliceUpdate") == 2


def test_calls_may_share_a_layer() -> None:
    def twice(self: Any, rows: Tensor, positions: Tensor) -> Tensor:
        keys, values = self.key.index_copy_(2, positions, rows), self.value.index_copy_(2, positions, rows)
        mask = torch.arange(LENGTH) <= positions[:, None]
        first = functional.scaled_dot_product_attention(rows, keys, values, mask)
        return functional.scaled_dot_product_attention(first, keys, values, mask)

    layer = Function(twice)
    found = compiled(layer, kv_cache="runtime")
    check(layer, found)
    assert [each.layer for each in _table(found)] == [0, 0]


def _with_left(layers: nn.Module, tokens: int) -> Compiled:
    """Lowers layers between which operators are left."""
    inputs = (floats(1, tokens, 32), torch.tensor([1]))
    shapes = ({1: Dim("tokens", min=1, max=5)}, None) if tokens > 1 else None
    exported = torch.export.export(copy.deepcopy(layers), inputs, dynamic_shapes=shapes)
    program = to_edge(exported, preserve=MLX.preserved_operators())
    program.owns_state = True
    return compile_program("mlx", program, kv_cache="runtime")


@pytest.mark.parametrize("tokens", [1, 3])
def test_delegates_of_a_program_have_other_layers(tokens: int) -> None:
    """The later one has positions as an input."""
    layers = Layers(Layer(), Layer(), between=lambda x: x.double().sin().float())
    found, eager = _with_left(layers, tokens), copy.deepcopy(layers)
    for start in (0, tokens):
        inputs = (floats(1, tokens, 32, seed=start), torch.tensor([start]))
        torch.testing.assert_close(found(*inputs)[0], eager(*inputs), rtol=1e-5, atol=1e-5)
    found_layers = [
        each.node.layer
        for blob in found.blobs()
        for chain in read_blob(memoryview(blob)).chains
        for each in chain.instructions
        if each.nodeType == schema.Node.UpdateAndAttend
    ]
    assert len(found.blobs()) > 1 and found_layers == [0, 1]


def _stored_elsewhere(self: Any, rows: Tensor, positions: Tensor) -> Tensor:
    return _attended(self, rows, positions, positions.flip(0))


def _stored_first(self: Any, rows: Tensor, positions: Tensor) -> Tensor:
    return _attended(self, rows, positions, positions[:1] * 0 + torch.arange(rows.shape[2]))


def _returned(self: Any, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return _attended(self, rows, positions), self.key * 2


def _no_attention(self: Any, rows: Tensor, positions: Tensor) -> Tensor:
    keys: Tensor = self.key.index_copy_(2, positions, rows)
    return rows @ keys.mT


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (Layer(lambda rows, positions: (rows <= positions) & (rows > positions - 4)), _NOT_CAUSAL),
        (Layer(lambda rows, positions: rows < positions + 1), _NOT_CAUSAL),
        (Layer(indices=lambda positions: positions % 7), _NOT_CAUSAL),
        (Layer(dtype=torch.int8), "its rows are quantized"),
        (Function(_stored_elsewhere), "not known to be stored at consecutive positions"),
        (Function(_stored_first), "not known to be stored at consecutive positions"),
        (Function(_attended, sequences=2), "several sequences"),
        (Function(_attended, first=1.0), "not zero at first"),
        (Function(_returned), "something else uses its buffers"),
        (Function(_no_attention), "no attention reads one"),
    ],
)
def test_refused_caches(layer: nn.Module, reason: str) -> None:
    with pytest.raises(DelegatecError, match=reason) as error:
        compiled(layer, kv_cache="runtime")
    assert {each.code for each in error.value.diagnostics} == {"DC426"}
    for each in error.value.diagnostics:
        assert (each.location is None) == (reason == "no attention reads one")


def test_methods_without_state_have_no_cache() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor, start: Tensor) -> Tensor:
            return x.sin() + start

    assert _table(compiled(Plain(), kv_cache="runtime")) == []


def test_the_older_runtime_has_no_such_cache() -> None:
    with pytest.raises(
        DelegatecError, match=r"'kv_cache' of backend mlx has no effect with runtime '1\.4\.1'"
    ):
        compiled(Layer(), kv_cache="runtime", runtime="1.4.1")


def test_a_negative_position_fails() -> None:
    found = compiled(Layer(), kv_cache="runtime")
    with pytest.raises(DelegatecError, match=r"DC408.*the position -1"):
        found(floats(1, 2, 32), torch.tensor([-1]))


def test_inspection() -> None:
    """Shapes are those of a text's first call."""
    graph = blob_graph(read_blob(memoryview(compiled(Layer(), kv_cache="runtime").blobs()[0])))
    (node,) = (each for each in graph.nodes if each.operation == "UpdateAndAttend")
    shapes = [graph.values[id].shape for _, id in node.operands]
    assert shapes == [(1, 4, 5, 8), *[(1, 2, 5, 8)] * 2, (5, 1)]
    assert graph.values[node.results[0]].shape == (1, 4, 5, 8)
    printed = format_blob_graph(graph)
    assert "UpdateAndAttend: from ExecuTorch 1.5 on" in printed
    assert "the app installs a cache of keys and values: layer 0" in printed
