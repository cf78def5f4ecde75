# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, and its text."""

# ruff: noqa: E501  the text of a graph has long lines
from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from delegatec_schemas import mps_graph as schema

from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import write_blob
from delegatec.backends.mps.graph import FAMILIES
from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.testing import compile_module
from delegatec.delegation import BlobLabels, Family, format_blob_graph
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, (3, 1), stride=(2, 1), padding=(1, 0), bias=False)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.max_pool2d(self.conv(x).clamp(min=0.0), 2)
        return torch.cat([self.linear(y.flatten(1)) * 0.5, x.mean([2, 3])], 1).to(torch.float16)


def test_every_value_and_operation_has_a_line() -> None:
    (delegate,) = compile_module(Net(), (torch.zeros(1, 1, 4, 4),)).delegates
    graph = MPS.graph(memoryview(delegate.blob_bytes()))
    labels = BlobLabels(delegate.constant_names, {"0": "conv"}, {"0": "net.py:7", "2": "net.py:8"})
    text = format_blob_graph(graph, labels)
    assert text.splitlines() == EXPECTED.splitlines()
    assert set(delegate.constant_names.values()) == {"conv.weight", "linear.weight.permute", "linear.bias"}
    bare = format_blob_graph(graph)
    assert [line.partition("  # ")[0].rstrip() for line in bare.splitlines()] == bare.splitlines()
    assert re.sub(r' "[a-z.]+"', "", bare).splitlines()[-1] == text.splitlines()[-1]


EXPECTED = """\
MPSGraph: 14 operations, 24 values, 7 constants of 80 B
  operations: 2 MaxPool2DWithIndices, 2 Where, 1 Addmm, 1 Cast, 1 Cat, 1 Conv2D, 1 Gt, 1 HardTanh, 1 Isnan, 1 Mean, 1 Mul, 1 View
  constants: 7 of f32 in 80 B
  %0        f32[1, 1, 4, 4]  = input
  %1        f32[2, 1, 3, 1]  = constant 24 B, at 0                                               # conv.weight
  %6        f32[1]           = constant 4 B, at 24, 1
  %8        f32[1]           = constant 4 B, at 28, 0
  %13       f32[1]           = constant 4 B, at 32, nan
  %16       f32[4, 2]        = constant 32 B, at 36                                              # linear.weight.permute
  %17       f32[2]           = constant 8 B, at 68                                               # linear.bias
  %19       f32[1]           = constant 4 B, at 76, 0.5
  %2        f32[1, 2, 2, 4]  = Conv2D(%0, weight=%1 "conv.weight", stride=2x1, padding=1,1,0,0)  # conv  net.py:7
  %3        f32[1, 2, 2, 4]  = HardTanh(%2, min_value=0, max_value=inf)
  %4, %5    f32[1, 2, 1, 2], i32[1, 2, 1, 2] = MaxPool2DWithIndices(%3, kernel=2x2, stride=2x2)  # net.py:8
  %7        bool[1, 2, 2, 4] = Isnan(%3)
  %9        f32[1, 2, 2, 4]  = Where(%7, %6(1), %8(0))
  %10, %11  f32[1, 2, 1, 2], i32[1, 2, 1, 2] = MaxPool2DWithIndices(%9, kernel=2x2, stride=2x2)
  %12       bool[1, 2, 1, 2] = Gt(%10, %8(0))
  %14       f32[1, 2, 1, 2]  = Where(%12, %13(nan), %4)
  %15       f32[1, 4]        = View(%14)
  %18       f32[1, 2]        = Addmm(%17 "linear.bias", %15, %16 "linear.weight.permute")
  %20       f32[1, 2]        = Mul(%18, %19(0.5))
  %21       f32[1, 1]        = Mean(%0, dims=[2, 3])
  %22       f32[1, 3]        = Cat(%20, %21, dim=1)
  %23       f16[1, 3]        = Cast(%22, dtype=f16)
  return %23
"""


def test_another_file_is_rejected() -> None:
    with pytest.raises(DelegatecError, match="DC407"):
        MPS.graph(memoryview(b"something else, of more than 24 bytes"))


def test_every_operation_has_a_name_and_a_family() -> None:
    assert {name for names in FAMILIES.values() for name in names} <= set(OPERATION_NAMES.values())
    assert set(FAMILIES) == set(Family) - {Family.ARITHMETIC}


def test_a_kernel_and_an_operand_that_is_absent() -> None:
    values = [schema.ValueT(schema.DataType.FLOAT32, 1, [2]) for _ in range(3)]
    table = schema.ConvolutionT(input1Id=0, input2Id=1, input3Id=-1, outputId=2)
    made = schema.GraphT("0", [schema.NodeT(schema.Operation.Conv2D, table)], values, [0, 1], [2], [], 1)
    graph = MPS.graph(memoryview(join(write_blob(made, [], checked=False))))
    text = format_blob_graph(graph)
    assert text.startswith("Metal kernel: 1 operation, 3 values, 0 constants of 0 B\n  note: no released")
    assert "= Conv2D(%0, weight=%1, " in text and "bias" not in text


@pytest.mark.parametrize(
    ("module", "notes"),
    [
        (lambda x: (x & 3) | (x ^ 1), ("BitwiseAnd, BitwiseOr, BitwiseXor: from macOS 13 and iOS 16.1 on",)),
        (lambda x: x + x, ()),
    ],
)
def test_operations_of_newer_systems_are_noted(
    module: Callable[[torch.Tensor], torch.Tensor], notes: tuple[str, ...]
) -> None:
    class Call(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return module(x)

    (blob,) = compile_module(Call(), (torch.tensor([1, 2], dtype=torch.int32),)).blobs()
    assert MPS.graph(memoryview(blob)).notes == notes


def test_constants_that_are_not_aligned_are_noted() -> None:
    values = [
        schema.ValueT(schema.DataType.INT8, 1, [3], 3, None, 0),
        schema.ValueT(schema.DataType.FLOAT32, 1, [1], 4, None, 3),
        schema.ValueT(schema.DataType.FLOAT32, 1, [1]),
    ]
    table = schema.ScaledBinaryT(input1Id=0, input2Id=1, outputId=2, alpha=1.0)
    made = schema.GraphT("0", [schema.NodeT(schema.Operation.Add, table)], values, [], [2], [0, 1])
    graph = MPS.graph(
        memoryview(join(write_blob(made, [bytes(3), np.float32(2.5).tobytes()], checked=False)))
    )
    assert [graph.values[id].note for id in (0, 1)] == ["at 0", "at 3, not aligned"]
    assert "= constant 4 B, at 3, not aligned, 2.5" in format_blob_graph(graph)
