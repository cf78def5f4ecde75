# SPDX-License-Identifier: Apache-2.0
"""Backend-independent checks of exported programs: bounds, training mode, constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.utils._sympy.numbers import int_oo

from delegatec.diagnostics import Diagnostic
from delegatec.edge.source import location_of
from delegatec.frontend.model import Model

# Operator -> index of its `training` argument (native_functions.yaml of torch).
_TRAINING_ARGUMENT = {
    torch.ops.aten.dropout.default: 2,
    torch.ops.aten.feature_dropout.default: 2,
    torch.ops.aten.alpha_dropout.default: 2,
    torch.ops.aten.batch_norm.default: 5,
    torch.ops.aten.rrelu.default: 3,
}


def program_problems(program: ExportedProgram, model: Model) -> list[Diagnostic]:
    """Yields all problems of a program.

    Args:
        program: with canonical metadata.
        model: the model that it was exported from.
    """
    return [
        *_unbounded(program, model),
        *_training(program),
        *_not_storable(program, model),
    ]


def _unbounded(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    inputs = {
        spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT
    }
    named: set[str] = set()
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name not in inputs or not isinstance(value, torch.Tensor):
            continue
        for dim, size in enumerate(value.shape):
            for symbol in sorted(_symbols(size), key=str):
                bounds = program.range_constraints.get(symbol)
                if str(symbol) in named or (bounds is not None and bounds.upper < int_oo):
                    continue
                named.add(str(symbol))
                yield Diagnostic(
                    code="DC114",
                    message=f"dimension {dim} of input {node.name} ({size}) has no upper bound",
                    location=model.location,
                    expected="a bound for each dynamic dimension: the runtime plans memory ahead of time",
                    help=f'set one in dynamic_shapes: torch.export.Dim("{node.name}_{dim}", max=...)',
                )


def _symbols(size: Any) -> set[Any]:
    return set() if isinstance(size, int) else set(size.node.expr.free_symbols)


def _training(program: ExportedProgram) -> Iterator[Diagnostic]:
    for node in program.graph.nodes:
        index = _TRAINING_ARGUMENT.get(node.target)
        if index is None or len(node.args) <= index or node.args[index] is not True:
            continue
        if node.target is torch.ops.aten.batch_norm.default and node.args[3] is None:
            continue  # No running statistics: it only normalizes, as in weight standardization.
        yield Diagnostic(
            code="DC118",
            message=f"{node.target} runs in training mode",
            location=location_of(node.meta.get("stack_trace")),
            node=_path(node),
            expected="training=False: programs only do inference",
            help="pass training=self.training, which is False during export",
        )


def _not_storable(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    for name, value in {**program.state_dict, **program.constants}.items():
        plain = isinstance(value, torch.Tensor) and type(value.data) is torch.Tensor
        if plain and value.device.type == "cpu" and value.layout is torch.strided:
            continue
        kind = f"of type {type(value).__name__}"
        if plain:
            kind = f"a tensor on {value.device.type} with layout {str(value.layout).removeprefix('torch.')}"
        yield Diagnostic(
            code="DC119",
            message=f'"{name}" of the module is {kind}',
            location=model.location,
            expected="plain strided tensors on cpu",
            help="load the weights on cpu, as plain tensors; a tensor on meta has no data",
        )


def _path(node: Node) -> str:
    stack = node.meta.get("nn_module_stack")
    return f"{node.name} in {list(stack.values())[-1][0] or 'the module'}" if stack else node.name
