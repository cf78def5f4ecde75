# SPDX-License-Identifier: Apache-2.0
"""The blob: layout, validation by flatc, damage, determinism, constants without copies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegatec.backends.common.testing.flatc import faults, to_json
from delegatec.backends.mps.blob import HEADER, MAGIC, read_blob
from delegatec.backends.mps.dtypes import FROM_FORMAT
from delegatec.backends.mps.testing import compile_module, operations
from delegatec.diagnostics import DelegatecError


class Small(torch.nn.Module):
    """A convolution, and an odd number of bytes of constants."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.odd: torch.Tensor
        self.register_buffer("odd", torch.arange(3, dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.conv(x).clamp(min=0.0, max=float("inf")) + 3.0
        return y * self.odd.view(3, 1, 1) - 3.0


X = torch.randn(1, 1, 5, 5)
SCHEMA = "mps_graph.fbs"


def blob_of(module: torch.nn.Module, precision: str = "fp32") -> bytes:
    (blob,) = compile_module(module, (X,), precision).blobs()
    return blob


def flatbuffer_of(blob: bytes) -> bytes:
    _, offset, _ = HEADER.unpack_from(blob)
    return blob[HEADER.size : offset]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_layout(precision: str) -> None:
    data = blob_of(Small(), precision)
    magic, offset, size = HEADER.unpack_from(data)
    assert (data[:4], magic) == (bytes(4), MAGIC)
    assert data[HEADER.size + 4 : HEADER.size + 8] == MAGIC
    assert offset % 16 == 0
    assert size % 16 == 0
    assert offset + size == len(data)
    blob = read_blob(memoryview(data))
    values = [blob.graph.mpsValues[id] for id in blob.graph.constantIds]
    end = 0
    for value in values:
        # Consecutive, each aligned to its elements.
        width = FROM_FORMAT[value.datatype].itemsize
        assert value.segmentOffset == end + -end % width
        end = value.segmentOffset + value.constantBufferSize
    assert end <= size < end + 16


def test_constants_are_aligned_after_odd_ones() -> None:
    class Odd(Small):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x * self.odd.sum() + self.odd[:1])

    blob = read_blob(memoryview(blob_of(Odd())))
    values = [blob.graph.mpsValues[id] for id in blob.graph.constantIds]
    assert any(value.constantBufferSize % 2 for value in values[:-1])
    assert all(value.segmentOffset % FROM_FORMAT[value.datatype].itemsize == 0 for value in values)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_flatc_reads_it(precision: str, tmp_path: Path) -> None:
    data = blob_of(Small(), precision)
    parsed = to_json(SCHEMA, flatbuffer_of(data), tmp_path)
    assert [node["mpsnode_union_type"] for node in parsed["mps_nodes"]] == operations(data)
    assert len(parsed["mps_values"]) == len(read_blob(memoryview(data)).graph.mpsValues)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_flatc_finds_no_fault(precision: str, tmp_path: Path) -> None:
    flatbuffer = flatbuffer_of(blob_of(Small(), precision))
    assert faults(SCHEMA, flatbuffer, tmp_path) == []


def test_flatc_finds_errors_in_truncated_buffers(tmp_path: Path) -> None:
    flatbuffer = flatbuffer_of(blob_of(Small()))
    assert faults(SCHEMA, flatbuffer[: len(flatbuffer) // 2], tmp_path) != []


def test_constants_are_views_of_the_parameters() -> None:
    module = Small().eval()
    bias = dict(module.named_parameters())["conv.bias"]
    compiled = compile_module(module, (X,))
    (delegate,) = compiled.delegates
    views = [part for part in delegate.blob if isinstance(part, memoryview)]
    with torch.no_grad():
        bias.fill_(42.0)
    assert any(bytes(view) == bias.detach().numpy().tobytes() for view in views)


def test_same_bytes_in_any_order() -> None:
    alone = blob_of(Small(1))
    blob_of(Small(2))
    blob_of(torch.nn.Softmax(-1))
    assert blob_of(Small(1)) == alone
    assert blob_of(Small(2)) != alone


def test_tied_weights_are_stored_once() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(5, 5, bias=False), torch.nn.Linear(5, 5, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.b(self.a(x).relu())
            return result

    blob = read_blob(memoryview(blob_of(Tied())))
    assert len(blob.graph.constantIds) == 1


GOOD = blob_of(Small())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD[:10], "fewer than its header"),
        (GOOD[:4] + b"XX00" + GOOD[8:], "its magic is"),
        (GOOD[:-32], "its constant segment"),
        (GOOD[:28] + b"XX00" + GOOD[32:], "identifier"),
    ],
)
def test_damaged(data: bytes, message: str) -> None:
    with pytest.raises(DelegatecError, match=message) as error:
        read_blob(memoryview(data))
    assert error.value.diagnostics[0].code == "DC407"


@given(st.integers(0, HEADER.unpack_from(GOOD)[1] - 1), st.integers(0, 255))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_changed_byte_makes_the_reader_fail(position: int, value: int) -> None:
    data = bytearray(GOOD)
    data[position] = value
    try:
        read_blob(memoryview(bytes(data)))
    except DelegatecError as error:
        assert error.diagnostics[0].code == "DC407"
