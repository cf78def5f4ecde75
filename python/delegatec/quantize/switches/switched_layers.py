# SPDX-License-Identifier: Apache-2.0
"""Switches of layers that are quantized without samples."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter
from torch.utils import _pytree as pytree

from delegatec.quantize.graph.bodies import all_nodes
from delegatec.quantize.graph.constants import tensor_of
from delegatec.quantize.layers.forms import Layer, layers_of
from delegatec.quantize.layers.quantize_layers import quantize_layers
from delegatec.quantize.layers.weights import scheme_of
from delegatec.quantize.settings import Settings
from delegatec.quantize.switches.switched import Leaves, Source
from delegatec.quantize.switches.units import Unit, Weight, operations_of, unit_of


class SwitchedLayers:
    """Switches of layers: each choice is a copy of the graph, quantized like the result.

    Args:
        graph: the graph in float, with marks; it is kept, and not changed.
        settings: how to quantize.
    """

    def __init__(self, graph: GraphModule, settings: Settings) -> None:
        self._graph = graph
        self._settings = settings
        layers = layers_of(graph, settings, ())
        self.units = tuple(_unit(graph, layer, settings) for layer in layers)
        self.sources = tuple(Source(frozenset({index})) for index in range(len(layers)))
        self.fixed = frozenset[int]()
        self.operations = sum(operations_of(node) for node, _ in all_nodes(graph))
        self._current: tuple[frozenset[int], GraphModule] | None = None

    def outputs(self, inputs: Sequence[Any], in_float: Collection[int]) -> Leaves:
        """See `Switched`."""
        chosen = frozenset(in_float)
        if self._current is None or self._current[0] != chosen:
            self._current = chosen, self._quantized(chosen)
        with torch.no_grad():
            found = Interpreter(self._current[1]).run(*inputs, enable_io_processing=False)
        return pytree.tree_leaves(found)

    def disturbed(self, samples: Sequence[Sequence[Any]]) -> Iterator[list[Leaves]]:
        """See `Switched`."""
        everything = frozenset(range(len(self.units)))
        for chosen in (everything, *(everything - source.units for source in self.sources)):
            yield [self.outputs(inputs, chosen) for inputs in samples]

    def _quantized(self, in_float: Collection[int]) -> GraphModule:
        graph = copied(self._graph)
        calls = frozenset().union(*(self.units[index].calls for index in in_float))
        if len(in_float) < len(self.units):
            settings = replace(self._settings, float_calls=self._settings.float_calls | calls)
            quantize_layers(graph, settings, ())
        return graph


def copied(graph: GraphModule) -> GraphModule:
    """Returns a copy of a graph that shares its tensors."""
    tensors = itertools.chain(graph.parameters(), graph.buffers())
    return copy.deepcopy(graph, {id(tensor): tensor for tensor in tensors})


def _unit(graph: GraphModule, layer: Layer, settings: Settings) -> Unit:
    value = tensor_of(graph, layer.weight).detach()
    scheme = scheme_of(layer, settings, layer.arranged(value))
    scales = 0 if scheme.dtype == "float16" else value.numel() // math.prod(scheme.block)
    return unit_of([layer.node], [Weight.of(layer.name, value.numel(), scheme.dtype, scales)])
