# SPDX-License-Identifier: Apache-2.0
"""Data files: round trips, deduplication of weights, and damage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
import torch
from delegatec_schemas import flat_tensor as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from delegatec.diagnostics import DelegatecError
from delegatec.program.external import weights_of
from delegatec.program.file.flat_tensor import write_flat_tensors
from delegatec.program.reader import FlatTensors, parse_flat_tensors, read_flat_tensors

WEIGHT = torch.arange(24.0).reshape(2, 3, 4)
TENSORS = {
    "a.weight": WEIGHT,
    "b.weight": WEIGHT,
    "scalar": torch.tensor(-0.5, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False, True]),
    "ids": torch.tensor([2**40, -1]),
}


def _write(tensors: dict[str, torch.Tensor], **options: Any) -> bytes:
    file = io.BytesIO()
    write_flat_tensors(tensors, file, **options)
    return file.getvalue()


GOOD = _write(TENSORS)


def _tensor(file: FlatTensors, name: str) -> torch.Tensor:
    entry = file.entries[name]
    assert entry.shape is not None
    dtype = getattr(torch, entry.shape.kind.name)
    return torch.frombuffer(bytearray(entry.data), dtype=dtype).reshape(entry.shape.sizes)


@pytest.mark.parametrize("alignment", [16, 128, 4096])
def test_round_trip(alignment: int) -> None:
    file = parse_flat_tensors(_write(TENSORS, alignment=alignment))
    assert list(file.entries) == list(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.equal(_tensor(file, name), tensor) and _tensor(file, name).dtype == tensor.dtype
        assert file.entries[name].offset % alignment == 0
    tied = [file.entries[name].segment for name in ("a.weight", "b.weight")]
    assert tied == [0, 0] and len({entry.segment for entry in file.entries.values()}) == 4


def test_a_file_of_nothing() -> None:
    assert parse_flat_tensors(_write({})).entries == {}


def test_reads_files(tmp_path: Path) -> None:
    path = tmp_path / "weights.ptd"
    path.write_bytes(GOOD)
    assert torch.equal(_tensor(read_flat_tensors(path), "ids"), TENSORS["ids"])
    path.write_bytes(b"")
    with pytest.raises(DelegatecError, match="DC350"):
        read_flat_tensors(path)


def test_tensors_are_not_copied_on_their_way() -> None:
    written: list[Any] = []

    class Sink(io.BytesIO):
        def write(self, data: Any, /) -> int:
            written.append(data)
            return super().write(data)

    large = torch.zeros(1000)
    write_flat_tensors({"large": large}, Sink())
    (chunk,) = (data for data in written if len(data) == large.nbytes)
    large[0] = 1
    assert bytes(chunk[:4]) == b"\0\0\x80\x3f"


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(3), persistent=False)
        self.register_buffer("count", torch.zeros(1))
        self.turned = torch.nn.Parameter(torch.rand(3, 2).T)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("count").add_(1)
        result: torch.Tensor = self.turned @ (self.second(self.first(x)) * self.get_buffer("scale")).T
        return result


def test_weights_of_a_model_are_row_major() -> None:
    exported = torch.export.export(_Model().eval(), (torch.rand(2, 3),))
    weights = weights_of({"forward": exported})
    linear = ["first.bias", "first.weight", "second.bias", "second.weight"]
    assert sorted(weights) == ["count", *linear[:2], "scale", *linear[2:]]
    assert weights["second.weight"].data_ptr() == weights["first.weight"].data_ptr()


def _code(data: bytes) -> str:
    with pytest.raises(DelegatecError) as caught:
        parse_flat_tensors(data)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code


@pytest.mark.parametrize("data", [b"", b"FT01", b"PK\3\4" * 8, GOOD.replace(b"FT01", b"FT02")])
def test_other_files_are_rejected(data: bytes) -> None:
    assert _code(data) == "DC350"


@pytest.mark.parametrize("length", [30, 300, len(GOOD) - 1])
def test_a_file_that_was_cut_off(length: int) -> None:
    assert _code(GOOD[:length]) == "DC351"


def _edit(edit: Any) -> bytes:
    """The file with another FlatBuffer, of the same length."""
    root = schema.FlatTensorT.InitFromPackedBuf(bytearray(GOOD), 0)
    edit(root)
    builder = flatbuffers.Builder()
    builder.Finish(root.Pack(builder), b"FT01")
    flatbuffer = bytes(builder.Output())
    start = int.from_bytes(flatbuffer[:4], "little") + 48
    header = bytearray(GOOD[8:56])
    header[16:24] = len(flatbuffer).to_bytes(8, "little")
    base = 4096
    header[24:32] = base.to_bytes(8, "little")
    data = GOOD[int.from_bytes(GOOD[32:40], "little") :]
    head = start.to_bytes(4, "little") + b"FT01" + bytes(header) + flatbuffer[8:]
    return head.ljust(base, b"\0") + data


DAMAGE: dict[str, tuple[str, Any]] = {
    "another version": ("DC354", lambda root: setattr(root, "version", 1)),
    "two of a name": ("DC353", lambda root: setattr(root.namedData[1], "key", "a.weight")),
    "segment out of range": ("DC352", lambda root: setattr(root.namedData[0], "segmentIndex", 4)),
    "segment after the file": ("DC352", lambda root: setattr(root.segments[3], "size", 2**40)),
    "larger than its segment": ("DC352", lambda root: setattr(root.segments[0], "size", 95)),
    "scalar type": ("DC352", lambda root: setattr(root.namedData[0].tensorLayout, "scalarType", 99)),
    "negative sizes": ("DC352", lambda root: setattr(root.namedData[0].tensorLayout, "sizes", [-2, -2, 1])),
    "sizes overflow": (
        "DC352",
        lambda root: setattr(root.namedData[0].tensorLayout, "sizes", [2**31 - 1] * 3),
    ),
    "order of dimensions": (
        "DC352",
        lambda root: setattr(root.namedData[0].tensorLayout, "dimOrder", [0, 0, 1]),
    ),
}


def test_an_edit_of_nothing_reads_well() -> None:
    assert list(parse_flat_tensors(_edit(lambda root: None)).entries) == list(TENSORS)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_has_a_code(name: str) -> None:
    code, edit = DAMAGE[name]
    assert _code(_edit(edit)) == code


@settings(max_examples=600, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4
    )
)
def test_any_damage_is_a_diagnostic(patches: list[tuple[int, bytes]]) -> None:
    data = bytearray(GOOD)
    for position, patch in patches:
        data[position : position + len(patch)] = patch
    try:
        file = parse_flat_tensors(bytes(data))
    except DelegatecError as error:
        assert all(diagnostic.code.startswith("DC35") for diagnostic in error.diagnostics)
    else:
        for entry in file.entries.values():
            assert entry.shape is None or len(entry.data) == entry.shape.nbytes
