# SPDX-License-Identifier: Apache-2.0
"""Checks of exported programs for calls that eager mode rejects, or that are only meaningful in training."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from delegatec.diagnostics import Diagnostic
from delegatec.edge.quantization.checks import quantization_problems
from delegatec.edge.source import location_of
from delegatec.edge.squeezes import squeeze_problems

aten = torch.ops.aten

# Operator -> index of its `training` argument (native_functions.yaml of torch).
_TRAINING_ARGUMENT: Final[dict[object, int]] = {
    aten.dropout.default: 2,
    aten.feature_dropout.default: 2,
    aten.alpha_dropout.default: 2,
    aten.feature_alpha_dropout.default: 2,
    aten.native_dropout.default: 2,
    aten.batch_norm.default: 5,
    aten.rrelu.default: 3,
    aten.rrelu_with_noise.default: 4,
}
# Operators that always mix dtypes, and may copy their tables.
_GATHERS: Final = frozenset({aten.embedding, aten.gather, aten.index, aten.index_select, aten.take})
_DTYPE_ERROR: Final = re.compile(r"dtype|scalar type|should be the same")
# Elements of the largest result that a check computes.
_LARGEST: Final = 2**24


def exported_problems(program: ExportedProgram) -> list[Diagnostic]:
    """Returns the problems of the graph of an exported program, and of the bodies of its control flow."""
    modules = program.graph_module.modules()
    nodes = [node for each in modules if isinstance(each, GraphModule) for node in each.graph.nodes]
    return [
        *_training(nodes),
        *_mixed_dtypes(nodes),
        *quantization_problems(nodes),
        *squeeze_problems(nodes, program.range_constraints),
    ]


def _training(nodes: list[Node]) -> Iterator[Diagnostic]:
    for node in nodes:
        index = _TRAINING_ARGUMENT.get(node.target)
        if index is None or len(node.args) <= index or node.args[index] is not True:
            continue
        if "dropout" in str(node.target) and node.args[1] == 0:
            continue  # It drops nothing.
        if node.target is aten.batch_norm.default and node.args[3] is None:
            continue  # No running statistics: it only normalizes, as in weight standardization.
        yield Diagnostic(
            code="DC118",
            message=f"{node.target} runs in training mode",
            location=location_of(node.meta.get("stack_trace")),
            node=_path(node),
            expected="training=False: programs only do inference",
            help="call eval() before torch.export; in forward, pass training=self.training, "
            "and do not call train()",
        )


def _mixed_dtypes(nodes: list[Node]) -> Iterator[Diagnostic]:
    """Yields calls whose operands eager mode rejects for their dtypes: torch.export does not check all."""
    known: dict[object, str] = {}
    for node in nodes:
        tensors = _tensors(node)
        dtypes = tuple(tensor.dtype for tensor in tensors if tensor.dim())
        numeric = {dtype for dtype in dtypes if dtype is not torch.bool}
        if len(numeric) < 2 or not isinstance(node.target, OpOverload):
            continue
        call = node.target, tuple(tensor.dtype for tensor in tensors), tuple(t.dim() for t in tensors)
        if call not in known:
            known[call] = _dtype_error(node)
        if known[call]:
            yield Diagnostic(
                code="DC125",
                message=f"{node.target} rejects its operands: {known[call]}",
                location=location_of(node.meta.get("stack_trace")),
                node=_path(node),
                expected="operands that eager mode accepts",
                help="convert the operands to one dtype, or the example inputs to the dtype of the weights",
            )


def _tensors(node: Node) -> list[torch.Tensor]:
    values = [source.meta.get("val") for source in node.all_input_nodes]
    return [value for value in values if isinstance(value, torch.Tensor)]


def _dtype_error(node: Node) -> str:
    """Calls the operator on zeros that take no memory; returns its error about dtypes, or "" for none."""
    assert isinstance(node.target, OpOverload)
    if node.target.overloadpacket in _GATHERS or any(_hint(t.numel()) > _LARGEST for t in _results(node)):
        return ""
    try:
        with torch.no_grad():
            node.target(*map_arg(node.args, _sample), **map_arg(node.kwargs, _sample))
    except Exception as error:  # noqa: BLE001 - any operator, on values that it may reject
        text = str(error).partition("\n")[0]
        return text if _DTYPE_ERROR.search(text) else ""
    return ""


def _results(node: Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    several = value if isinstance(value, (tuple, list)) else [value]
    return [each for each in several if isinstance(each, torch.Tensor)]


def _sample(node: Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return torch.zeros((), dtype=value.dtype).expand([_hint(size) for size in value.shape])
    return _hint(value) if isinstance(value, torch.SymInt) else value


def _hint(size: Any) -> int:
    if isinstance(size, torch.SymInt):
        hint: int | None = size.node.hint
        return 1 if hint is None else hint
    return int(size)


def _path(node: Node) -> str:
    stack = node.meta.get("nn_module_stack")
    return f"{node.name} in {list(stack.values())[-1][0] or 'the module'}" if stack else node.name
