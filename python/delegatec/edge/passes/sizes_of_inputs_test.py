# SPDX-License-Identifier: Apache-2.0
"""Sizes of intermediate tensors become sizes of inputs."""

from __future__ import annotations

import torch

from delegatec.edge import to_edge
from delegatec.edge.passes.sizes_of_inputs import take_sizes_of_inputs
from delegatec.edge.printer import print_program
from delegatec.edge.symbols import is_scalar


class Mask(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        return x + torch.ones(length, length).triu(1)[0]


class Selected(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x.nonzero()
        return found + torch.arange(found.shape[0])[:, None]


def test_nothing_waits_for_an_intermediate_tensor() -> None:
    sizes = ({1: torch.export.Dim("length", min=2, max=8)},)
    exported = torch.export.export(Mask(), (torch.ones(2, 5),), dynamic_shapes=sizes)
    program = to_edge(exported, passes=(take_sizes_of_inputs,))
    sources = {node.args[0] for node in program.graph.nodes if node.target is torch.ops.aten.sym_size.int}
    assert {node.op for node in sources} == {"placeholder"}, print_program(program)


def test_sizes_that_depend_on_data_stay() -> None:
    program = to_edge(torch.export.export(Selected(), (torch.ones(4),)), passes=(take_sizes_of_inputs,))
    assert any(is_scalar(node) for node in program.graph.nodes)
    assert not take_sizes_of_inputs(program)


class Elements(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = torch.full((2,), torch.ops.aten.sym_numel(x))
        return first + torch.ops.aten.sym_numel(x * 2 + 1)


def test_the_number_of_elements_is_a_product_of_sizes() -> None:
    sizes = ({0: torch.export.Dim("rows", min=2, max=8), 1: torch.export.Dim("columns", min=2, max=8)},)
    exported = torch.export.export(Elements(), (torch.ones(3, 5),), dynamic_shapes=sizes)
    program = to_edge(exported, passes=(take_sizes_of_inputs,))
    targets = {node.target for node in program.graph.nodes if is_scalar(node)}
    assert torch.ops.aten.sym_numel.default not in targets and torch.ops.aten.sym_size.int in targets
