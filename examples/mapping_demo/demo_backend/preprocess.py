# SPDX-License-Identifier: Apache-2.0
"""Compilation of a partition to a blob, and to a map from its instructions to nodes of the model."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.delegation import DelegateMappingBuilder, PartitionView, PreprocessResult
from demo_backend.blob import Blob, Instruction, write_blob
from demo_backend.operators import CONVOLUTION, RELU, TAN, Convolution


def preprocess(view: PartitionView) -> PreprocessResult:
    """Compiles a partition of `DemoPartitioner`."""
    compiler = _Compiler(view)
    for node in view.nodes:
        if node.target is RELU:
            compiler.convolution_and_relu(node)
        elif node.target is TAN:
            compiler.tangent(node)
        else:
            assert node.target is CONVOLUTION, node  # compiled with its relu
    outputs = tuple(compiler.values[node] for node in view.outputs)
    blob = Blob(len(view.inputs), tuple(compiler.instructions), outputs, tuple(compiler.weights))
    return PreprocessResult(write_blob(blob), compiler.debug_map.get_delegate_mapping())


class _Compiler:
    """The instructions of a blob under construction.

    Attributes:
        values: number of each value: inputs first, then the result of each instruction.
        debug_map: identifier of each instruction -> the nodes that it computes. The identifiers are
            generated: 0, 1, 2, ... The blob stores them, too, for the device to report.
    """

    def __init__(self, view: PartitionView) -> None:
        self.values = {node: index for index, node in enumerate(view.inputs)}
        self.instructions: list[Instruction] = []
        self.weights: list[torch.Tensor] = []
        self.debug_map = DelegateMappingBuilder(generated_identifiers=True)
        self._view = view
        self._weight_indices: dict[Node, int] = {}

    def convolution_and_relu(self, relu: Node) -> None:
        """Two nodes, one instruction."""
        (node,) = relu.all_input_nodes
        found = Convolution.of(node)
        operands = [f"v{self.values[found.input]}", self._weight(found.weight)]
        if found.bias is not None:
            operands.append(self._weight(found.bias))
        operands += [f"n{index}" for index in found.window]
        self.values[relu] = self._emit("conv_relu_op", [node, relu], operands)

    def tangent(self, node: Node) -> None:
        """One node, three instructions: tan = sin / cos."""
        (angle,) = node.all_input_nodes
        operand = f"v{self.values[angle]}"
        sine = self._emit("sin_decomp_from_tan", [node], [operand])
        cosine = self._emit("cos_decomp_from_tan", [node], [operand])
        self.values[node] = self._emit("div_decomp_from_tan", [node], [f"v{sine}", f"v{cosine}"])

    def _emit(self, operation: str, nodes: list[Node], operands: list[str]) -> int:
        """Appends an instruction for some nodes, and returns the index of its result."""
        identifier = self.debug_map.insert_delegate_mapping_entry(nodes=nodes)
        assert isinstance(identifier, int)
        self.instructions.append(Instruction(operation, identifier, tuple(operands)))
        return len(self._view.inputs) + len(self.instructions) - 1

    def _weight(self, node: Node) -> str:
        if node not in self._weight_indices:
            self._weight_indices[node] = len(self.weights)
            self.weights.append(self._view.constants[node])
        return f"w{self._weight_indices[node]}"
