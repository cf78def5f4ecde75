# SPDX-License-Identifier: Apache-2.0
"""Operators of libraries that compute a weight from constants, which need that library where they run.

A matrix of four bits with groups along its rows becomes a call of `edge/quantization/affine.py`. Any other
weight becomes the tensor that the operator returns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.quantization.affine import AFFINE

_LIBRARIES: Final = ("torchao",)
"""Namespaces of operators."""
_INT4: Final = "torchao.dequantize_int4_tensor.default"
_SHIFT: Final = 8
"""From [0, 15] to [-8, 7]."""


def adopt_library_weights(program: ExportedProgram) -> None:
    """Replaces the operators of libraries on constants, in place."""
    calls = [
        node
        for node in program.graph.nodes
        if isinstance(node.target, OpOverload) and node.target.namespace in _LIBRARIES
    ]
    if not calls:
        return
    weights = _Weights(program)
    for node in calls:
        if isinstance(node.meta.get("val"), Tensor) and weights.are_constant(node.all_input_nodes):
            with program.graph.inserting_before(node):
                adopted = _int4(weights, node) if str(node.target) == _INT4 else weights.computed(node)
            node.replace_all_uses_with(adopted)
            program.graph.erase_node(node)
    weights.erase_unused()
    program.graph_module.recompile()


def _int4(weights: _Weights, node: Node) -> Node:
    """Two values in a byte, the first one in the low bits; scales and zero points [groups, rows]."""
    bound = bind(node)
    packed, scale, zeros = (bound[name] for name in ("qdata", "scale", "zero_point"))

    found = weights.tensor(zeros)
    # the difference of fractions would be rounded
    shift = _SHIFT if bool((found == found.round()).all()) and bool((found.abs() < 64).all()) else 0
    dtype = torch.int8 if shift else torch.uint8

    def unpacked() -> Tensor:
        pairs = weights.tensor(packed).view(torch.uint8)
        return torch.stack((pairs & 15, pairs >> 4), -1).flatten(-2).to(dtype) - shift

    def shifted() -> Tensor:
        by_row = found.t().contiguous()
        return (by_row - shift).to(torch.int8) if shift else by_row

    values = weights.added(packed, (packed, dtype), unpacked)
    scales = weights.added(scale, (scale, "rows"), lambda: weights.tensor(scale).t().contiguous())
    is_symmetric = shift and bool((found == shift).all())
    zero_points = None if is_symmetric else weights.added(zeros, (zeros, "rows"), shifted)
    call = node.graph.call_function(
        AFFINE.dequantize_affine.default,
        (values, [1, bound["group_size"]], scales, zero_points, dtype, -shift, 15 - shift),
        {"output_dtype": dtype_of(node)},
    )
    call.meta = dict(node.meta)
    return call


class _Weights:
    """The weights of a program, and those that are computed from them.

    Args:
        program: the program, which gets further weights.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        written = program.graph_signature.buffers_to_mutate.values()
        placeholders = program.graph.find_nodes(op="placeholder")
        self._specs = dict(zip(placeholders, program.graph_signature.input_specs, strict=True))
        self._constant = {
            node: spec
            for node, spec in self._specs.items()
            if spec.target in program.state_dict and spec.target not in written
        }
        self._added: dict[Hashable, Node] = {}
        self._replaced: set[Node] = set()

    def are_constant(self, nodes: list[Node]) -> bool:
        """Whether all nodes are weights that the program does not write to."""
        return bool(nodes) and all(node in self._constant for node in nodes)

    def tensor(self, node: Node) -> Tensor:
        """Returns a weight."""
        tensor: Tensor = self._program.state_dict[self._constant[node].target].detach()
        return tensor

    def computed(self, node: Node) -> Node:
        """Returns the weight that a call computes."""

        def compute() -> Tensor:
            args, kwargs = map_arg((node.args, node.kwargs), self.tensor)
            result: Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
            return result

        first, *others = node.all_input_nodes
        self._replaced.update(others)
        return self.added(first, (node.target, str(node.args), str(node.kwargs)), compute)

    def added(self, source: Node, key: Hashable, compute: Callable[[], Tensor]) -> Node:
        """Returns a weight that is computed from another one, and named after it; once for each key."""
        if key not in self._added:
            spec, names = self._specs[source], self._program.state_dict
            name = f"{spec.target}.plain"
            while name in names:
                name += "_"
            with torch.no_grad():
                made = compute()
            is_parameter = spec.kind is InputKind.PARAMETER
            names[name] = torch.nn.Parameter(made, requires_grad=False) if is_parameter else made
            self._added[key] = self._placeholder(source, spec, name, made)
            self._replaced.add(source)
        return self._added[key]

    def erase_unused(self) -> None:
        """Erases the weights that nothing uses any more."""
        for node in self._replaced:
            if not node.users:
                self._program.graph.erase_node(node)
                name = self._specs.pop(node).target
                if all(spec.target != name for spec in self._specs.values()):
                    del self._program.state_dict[name]
        placeholders = self._program.graph.find_nodes(op="placeholder")
        self._program.graph_signature.input_specs[:] = [self._specs[node] for node in placeholders]

    def _placeholder(self, before: Node, spec: InputSpec, name: str, made: Tensor) -> Node:
        graph, val = self._program.graph, before.meta["val"]
        with graph.inserting_before(before):
            node: Node = graph.placeholder(f"p_{name.replace('.', '_')}")
        node.meta = {"val": val.fake_mode.from_tensor(made, static_shapes=True)}
        self._specs[node] = replace(spec, arg=TensorArgument(node.name), target=name)
        return node
