# SPDX-License-Identifier: Apache-2.0
"""Attention to caches that the runtime owns, for the option `kv_cache`.

The instruction stores the rows of a call in a layer of the cache, and attends to all rows up to each query.
It replaces the buffers of keys and values of a causal layer, which nothing else reads. It has no window and
no scales of quantized rows: such layers keep their buffers.

Layers are numbered in the order of the whole program, since all of its delegates share a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.runtime_layer import RuntimeLayer
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.operators.layers.cached_attention import ROWS, allowed_rows
from delegatec.backends.mlx.operators.positions import span_of
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.filled_rows import FilledRows
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_ATTENTION: Final = aten.scaled_dot_product_attention.default
_LAYER: Final = "layer_of_runtime_cache"
"""Metadata of the placeholder of a buffer of keys: the number of its layer."""

_MASK: Final = "the mask of its attention is not known to allow all rows up to each token, and no others"
_POSITIONS: Final = "keys and values are not known to be stored at consecutive positions, the same for both"
_SHAPES: Final = "it has several sequences, or keys and values of different sizes"
_OTHER_USES: Final = "something else uses its buffers"
_SCALED: Final = "its rows are quantized, with scales in other buffers"
_NOT_KEPT: Final = "its buffers are not zero at first, or not in one delegate of one method"


@dataclass(frozen=True)
class _Stored:
    """A buffer that a program writes to, and reads from then on.

    Attributes:
        buffer: its placeholder.
        written: the call that writes rows.
        calls: this call, and conversions of its result.
    """

    buffer: Node
    written: Node
    calls: frozenset[Node]


def numbering(view: PartitionView) -> Pass:
    """Returns a pass that numbers the layers of a private program, for `runtime_layers`.

    Args:
        view: the partition, in its own program.

    Raises:
        DelegatecError: DC426 if the partition keeps state, and the runtime can own none of the program's; or
            for each layer of the partition that the partition does not keep.
    """
    layers, reasons = _layers(view.program, view.facts, _state(view.program))
    own = [node for node in view.nodes if node in layers or node in reasons]
    problems = [
        _problem(_NOT_KEPT, node)
        for node in own
        if node in layers and not {*layers[node].buffers} <= view.state.keys()
    ]
    if not layers:
        problems = [_problem(reasons[node], node) for node in own]
        if not reasons and view.state:
            problems = [_problem("no attention reads one")]
    if problems:
        raise DelegatecError(problems)
    layer_of = {each.buffers[0].name: each.number for each in layers.values()}

    def number_layers(program: EdgeProgram) -> bool:
        for node in () if program.is_body else program.placeholders():
            if node.name in layer_of:
                node.meta[_LAYER] = layer_of[node.name]
        return False

    return number_layers


def runtime_layers(view: PartitionView) -> dict[Node, RuntimeLayer]:
    """Returns the layers of the calls of attention of a private program, whose layers have numbers."""
    state = _state(view.program)
    found = {}
    for node in view.nodes:
        stored = _operands(node, state) if node.target is _ATTENTION else None
        if stored is not None and _LAYER in stored[0].buffer.meta:
            found[node] = _layer_of(*stored, stored[0].buffer.meta[_LAYER])
    return found


def attend(b: GraphBuilder, node: Node, layer: RuntimeLayer, scale: float) -> None:
    """Emits attention to a layer of the runtime's cache, which it extends first."""
    positions = b.of(layer.positions)

    def column() -> Array:
        shape = (*shape_of(layer.positions), 1)
        out = b.temporary(shape, positions.dtype)
        b.emit("Reshape", x=positions, out=out, shape=b.shape(shape))
        return out

    key, value = (b.of(each) for each in layer.rows)
    b.emit(
        "UpdateAndAttend",
        q=b.of(bind(node)["query"]),
        k=key,
        v=value,
        position=b.shared(("column", positions), column),
        out=b.result(node),
        layer=layer.number,
        scale=scale,
    )


def _state(program: EdgeProgram) -> dict[Node, Node]:
    """Returns the placeholder of each buffer that a program writes to, and its new value."""
    written = program.mutated_inputs()
    return {node: written[node.name] for node in program.placeholders() if node.name in written}


def _layers(
    program: EdgeProgram, facts: Facts, state: Mapping[Node, Node]
) -> tuple[dict[Node, RuntimeLayer], dict[Node, str]]:
    """Returns the layers of calls of attention, and why other calls that read buffers have none."""
    known = FilledRows(Builder(program, facts))
    found = {
        node: _layer(known, facts, state, node) for node in program.graph.nodes if node.target is _ATTENTION
    }
    layers = {node: each for node, each in found.items() if isinstance(each, RuntimeLayer)}
    reasons = {node: each for node, each in found.items() if isinstance(each, str)}
    results = {*program.results(without=[each.name for each in state])}
    for node, layer in list(layers.items()):
        readers = {each for each, other in layers.items() if other.buffers == layer.buffers}
        calls = {*layer.buffers, *layer.replaced}
        users = {user for call in calls for user in call.users if user.op != "output"}
        if calls & results or users - readers - layer.replaced:
            reasons[node] = _OTHER_USES
    layers = {node: each for node, each in layers.items() if node not in reasons}
    distinct = [*dict.fromkeys(each.buffers for each in layers.values())]
    numbered = {node: replace(each, number=distinct.index(each.buffers)) for node, each in layers.items()}
    return numbered, reasons


def _layer(
    known: FilledRows, facts: Facts, state: Mapping[Node, Node], node: Node
) -> RuntimeLayer | str | None:
    """Returns a layer, without its number; why there is none; None for attention to no buffers."""
    bound = bind(node)
    stored = _operands(node, state)
    if stored is None:
        scaled = [each for each in (bound["key"], bound["value"]) if each.target is aten.mul.Tensor]
        factors = (bind(each)[name] for each in scaled for name in ("self", "other"))
        return _SCALED if any(_stored(each, state) for each in factors if isinstance(each, Node)) else None
    allowed = allowed_rows(known, node, facts.constant)
    if allowed is None or not allowed.is_causal:
        return _MASK
    for each in stored:
        indices = bind(each.written)["indices"]
        span = span_of(indices[ROWS], facts.constant) if len(indices) == ROWS + 1 else None
        if span is None or span.key != allowed.span.key:
            return _POSITIONS
    layer = _layer_of(*stored, 0)
    shapes = [sizes_key(shape_of(each)) for each in layer.rows]
    return _SHAPES if shapes[0] != shapes[1] or shapes[0][0] != 1 else layer


def _operands(node: Node, state: Mapping[Node, Node]) -> tuple[_Stored, _Stored] | None:
    """Returns the buffers that a call of attention reads, if it does."""
    bound = bind(node)
    key, value = _stored(bound["key"], state), _stored(bound["value"], state)
    return None if key is None or value is None else (key, value)


def _layer_of(key: _Stored, value: _Stored, number: int) -> RuntimeLayer:
    bound = bind(key.written)
    return RuntimeLayer(
        number,
        bound["indices"][ROWS],
        (bound["values"], bind(value.written)["values"]),
        (key.buffer, value.buffer),
        key.calls | value.calls,
    )


def _stored(node: Node, state: Mapping[Node, Node]) -> _Stored | None:
    calls = [node]
    while node.target is aten._to_copy.default:
        node = bind(node)["self"]
        calls.append(node)
    if node.target is not aten.index_put.default:
        return None
    buffer = bind(node)["self"]
    return _Stored(buffer, node, frozenset(calls)) if state.get(buffer) is node else None


def _problem(reason: str, node: Node | None = None) -> Diagnostic:
    return Diagnostic(
        "DC426",
        f"the runtime cannot own a cache of keys and values: {reason}",
        location=None if node is None else node.meta.get("source"),
        node="" if node is None else node.name,
        expected="causal attention of one sequence to rows of zeros, which each call extends",
        help='set kv_cache = "program": the delegate keeps them',
    )
