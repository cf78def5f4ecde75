# SPDX-License-Identifier: Apache-2.0
"""Blobs: round trips, files of other writers, and damaged files."""

from __future__ import annotations

from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import torch
from delegatec_schemas import tosa_graph as schema

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.testing import compile_module
from delegatec.backends.common.testing import Call, X
from delegatec.backends.common.testing.flatc import faults, to_json
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError


def _blob() -> bytes:
    (blob,) = compile_module(Call(lambda x: torch.tanh(x) * torch.arange(4.0)), (X,)).blobs()
    return blob


def test_what_is_written_is_read() -> None:
    graph = read_blob(memoryview(_blob()))
    assert [each.name for each in graph.operations] == ["TANH", "MUL"]
    assert [str(value) for value in (*graph.inputs, *graph.outputs)] == ["FP32[2, 3, 4]", "FP32[2, 3, 4]"]
    (table,) = (value for value in graph.constants if value.dtype == schema.DType.FP32)
    assert np.frombuffer(join([table.part or b""]), "<f4").tolist() == [0.0, 1.0, 2.0, 3.0]


def test_flatc_reads_it(tmp_path: Path) -> None:
    assert faults("tosa_graph.fbs", _blob(), tmp_path) == []
    contents = to_json("tosa_graph.fbs", _blob(), tmp_path)
    (block,) = contents["regions"][0]["blocks"]
    assert contents["version"] == {"major": 1, "minor": 0, "patch": 0, "draft": False}
    assert [each["op"] for each in block["operators"]][-2:] == ["TANH", "MUL"]


def _written(tensor: schema.TensorT, *operators: schema.OperatorT, result: str = "x") -> bytes:
    tensors = [tensor, schema.TensorT("unknown", [2], schema.DType.FP32)]
    block = schema.BlockT("main", list(operators), tensors, ["x"], [result], [])
    graph = schema.GraphT(schema.VersionT(1, 0, 0, False), [schema.RegionT("main", [block])])
    builder = flatbuffers.Builder(0)
    builder.Finish(graph.Pack(builder), file_identifier=b"TOSA")
    return bytes(builder.Output())


def test_empty_bytes_are_not_a_constant() -> None:
    graph = read_blob(memoryview(_written(schema.TensorT("x", [2], schema.DType.FP32, []))))
    assert graph.constants == () and not graph.inputs[0].is_constant


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (b"", "identifier"),
        (_written(schema.TensorT("x", [2], 77)), "unknown type of tensor"),
        (_written(schema.TensorT("x", [2], schema.DType.FP32, [0] * 7)), "7 bytes, fewer than 8"),
        (_written(schema.TensorT("y", [2], schema.DType.FP32)), "its inputs include"),
        (
            _written(
                schema.TensorT("x", [2], schema.DType.FP32),
                schema.OperatorT(schema.Op.EXP, schema.Op.ERF, schema.NothingT(), ["x"], ["x"]),
            ),
            "has the attribute of another",
        ),
        (
            _written(schema.TensorT("x", [2], schema.DType.FP32), result="unknown"),
            "its outputs include b'unknown', which nothing computes",
        ),
        (
            _written(
                schema.TensorT("x", [2], schema.DType.FP32),
                schema.OperatorT(schema.Op.EXP, schema.Op.EXP, schema.NothingT(), ["unknown"], ["x"]),
            ),
            "operator 0 uses b'unknown', which nothing computes",
        ),
        (
            _written(schema.TensorT("x", [2], schema.DType.FP32), result="y" * 5000),
            r"its outputs include b'y{1,100}\.{3}y{1,100}', which it does not have$",
        ),
    ],
)
def test_problems(blob: bytes, problem: str) -> None:
    with pytest.raises(DelegatecError, match=problem):
        read_blob(memoryview(blob))
