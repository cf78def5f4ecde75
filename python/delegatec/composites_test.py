# SPDX-License-Identifier: Apache-2.0
"""Operators that are decomposed only if that helps: which stay whole, and which are delegated."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.nn import functional

from delegatec.backends import builtin_backends
from delegatec.delegation import PartitionRules, call_delegate
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.edge import EdgeProgram
from delegatec.edge.quantization.operators import quantized
from delegatec.edge.testing import Function
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter

aten = torch.ops.aten
X = torch.randn(3, 8)


def exported(module: nn.Module) -> ExportedProgram:
    return torch.export.export(module.eval(), (X,))


def called(program: EdgeProgram) -> list[Any]:
    """Returns the operators of a program, in order, without `getitem`."""
    calls = (node.target for node in program.graph.nodes if node.op == "call_function")
    return [target for target in calls if target is not operator.getitem]


def between(function: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Returns a module that runs a function between operators that MPS supports."""
    return Function(lambda x: function(x.exp()).sin())


def test_composites_with_a_kernel_are_kept_if_no_backend_supports_their_decomposition() -> None:
    def variance(dtype: torch.dtype) -> EdgeProgram:
        module = between(lambda x: x.to(dtype).var(1).to(torch.float32))
        return lower({"forward": exported(module)}, "mps").programs["forward"]

    assert called(variance(torch.float32)) == [call_delegate]
    # MPS has no float64: the kernel of the runtime computes it as a whole, as in a portable program.
    left = [target for target in called(variance(torch.float64)) if target is not call_delegate]
    portable = lower({"forward": exported(between(lambda x: x.double().var(1).float()))}).programs["forward"]
    assert aten.var.dim in left and aten.var.dim in called(portable)


def test_a_blocked_composite_stays_whole() -> None:
    rules = PartitionRules(block_operators=("aten.roll",))
    module = between(lambda x: x.roll(2, 1))
    program = lower({"forward": exported(module)}, "mps", rules=rules).programs["forward"]
    assert [t for t in called(program) if t is not call_delegate] == [aten.roll.default]
    free = lower({"forward": exported(module)}, "mps")
    assert free.reports["forward"].nodes_left == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.roll(2, 1),
        lambda x: functional.pixel_unshuffle(x, 2),
        lambda x: x.relu().select_scatter(x[:, 1], 1, 0).abs(),
    ],
)
def test_composites_of_quantized_values(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Their decomposition is supported as integer arithmetic, although it is not with floating point."""

    class Quantized(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            value = function(quantized.dequantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8))
            return quantized.quantize_per_tensor(value, 0.1, 3, -128, 127, torch.int8)

    program = torch.export.export(Quantized(), (torch.zeros(1, 2, 4, 4, dtype=torch.int8),))
    lowered = lower({"forward": program}, "tosa", {"specification": "TOSA-1.0+INT"})
    assert called(lowered.programs["forward"]) == [call_delegate]


def test_linear_is_one_operator_delegated_or_not() -> None:
    layers = {"first": nn.Linear(8, 8), "relu": nn.ReLU(), "second": nn.Linear(8, 8)}
    program = exported(nn.Sequential(OrderedDict(layers)))
    lowered = lower({"forward": program}, "mps", rules=PartitionRules(block_modules=("second",)))
    (delegate,) = lowered.reports["forward"].delegates
    assert delegate.operators == {"aten.linear.default": 1, "aten.relu.default": 1}
    assert called(lowered.programs["forward"])[-1] is aten.linear.default


class Attentive(EagerBackend):
    """Preserves attention, but supports it only in float32."""

    name = "attentive"

    def preserved_operators(self) -> frozenset[Any]:
        return frozenset({aten.scaled_dot_product_attention.default, aten.layer_norm.default})

    def partitioner(self, compile_specs: Sequence[Any]) -> SupportsAllBut:
        return SupportsAllBut(aten.scaled_dot_product_attention.default, aten.layer_norm.default)


def test_preserved_but_rejected_composites_are_decomposed(tmp_path: Path) -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = functional.scaled_dot_product_attention(x[None], x[None], x[None])
            return functional.layer_norm(y.sin(), (8,))[0]

    registry = builtin_backends()
    registry.register(Attentive())
    lowered = lower({"forward": exported(Attention())}, "attentive", registry=registry)
    assert [r.operator for r in lowered.reports["forward"].rejections] == [
        "aten.scaled_dot_product_attention.default",
        "aten.layer_norm.default",
    ]
    assert aten.native_layer_norm.default in called(lowered.programs["forward"])
    with open(tmp_path / "p.pte", "wb") as file:
        write_program(lowered.emitted, file)
    (result,) = Interpreter(read_program(tmp_path / "p.pte").method("forward"), registry).run([X])
    torch.testing.assert_close(result, Attention()(X))
