# SPDX-License-Identifier: Apache-2.0
"""Program files: their bytes, their alignment, and the header."""

from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from delegatec_schemas import program as schema

from delegatec.delegation import NamedData
from delegatec.delegation.testing import Counting
from delegatec.edge.testing import Function, edge
from delegatec.program import EmittedProgram, MemoryPlan, ProgramOptions, emit, write_program
from delegatec.program.emitted import Delegate, DelegateCall, EmittedMethod, TensorValue
from delegatec.program.reader import parse_program

# Written by `python writer_test.py`, and read by eye and by the runtime before it was committed.
GOLDEN = Path(__file__).parents[1] / "testdata" / "scale_and_count.pte"
X = torch.ones(2, 3)


def _bytes(program: EmittedProgram) -> bytes:
    file = io.BytesIO()
    write_program(program, file)
    return file.getvalue()


def _compile(model: Callable[..., Any], *inputs: Any, **options: Any) -> bytes:
    return _bytes(emit({"forward": edge(model, *inputs, **options)}))


def _scale_and_count() -> bytes:
    """A constant, a mutable buffer, a view, a list, scalars, a nested result."""

    def model(self: Any, x: torch.Tensor) -> Any:
        self.count.add_(1)
        return {"y": torch.cat([x * self.scale, x], 1).view(-1), "n": self.count + 0.5}

    module = Function(model, scale=torch.tensor([1.0, 2.0, 4.0]), count=torch.tensor(7))
    return _compile(module, X)


def _header(data: bytes) -> tuple[int, int, int]:
    magic, length, program_size, base, size = struct.unpack_from("<4sIQQQ", data, 8)
    assert (magic, length) == (b"eh00", 32)
    return program_size, base, size


def _root(data: bytes) -> Any:
    assert data[4:8] == b"ET12"
    return schema.ProgramT.InitFromPackedBuf(bytearray(data), 0)


def test_golden_bytes() -> None:
    assert _scale_and_count() == GOLDEN.read_bytes()


def test_header_and_segments() -> None:
    data = _scale_and_count()
    program_size, base, size = _header(data)
    assert len(data) == base + size
    assert base % 128 == 0 and base - program_size < 128
    assert data[program_size:base] == bytes(base - program_size)
    constants, mutable = _root(data).segments
    assert (constants.offset, constants.size) == (0, 12)
    assert mutable.offset == 128 and mutable.offset + mutable.size == size
    assert data[base : base + 12] == struct.pack("<3f", 1, 2, 4)
    assert data[base + 128 : base + 136] == struct.pack("<q", 7)


def test_a_program_without_data_is_a_bare_flatbuffer() -> None:
    data = _compile(lambda x: torch.sin(x), X)
    assert data[8:12] != b"eh00"
    program = _root(data)
    assert program.segments == [] and program.constantSegment.offsets.tolist() == [0]


def test_empty_constants_only() -> None:
    module = Function(lambda self, x: (x + 1, self.nothing), nothing=torch.ones(0, 3))
    program = _root(_compile(module, X))
    assert program.constantSegment.offsets.tolist() == [0, 0]


def test_constants_are_aligned() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return x + self.a, x * self.b, x - self.c

    values = {"a": [3] * 3, "b": 2, "c": 20}
    buffers = {name: torch.tensor(value, dtype=torch.int8) for name, value in values.items()}
    data = _compile(Function(model, **buffers), X.to(torch.int8))
    _, base, _ = _header(data)
    program = _root(data)
    assert program.constantSegment.offsets[0] == 0
    offsets = program.constantSegment.offsets[1:]
    assert all(offset % 16 == 0 for offset in offsets) and len(set(offsets)) == 3
    stored = sorted(data[base + offset : base + offset + 1] for offset in offsets)
    assert stored == [b"\x02", b"\x03", b"\x14"]


def _with_delegates(*blobs: tuple[bytes, ...]) -> EmittedProgram:
    tensor = TensorValue(6, (4,), offset=0)
    method = EmittedMethod(
        name="forward",
        values=[tensor],
        inputs=[0],
        outputs=[0],
        operators=[],
        instructions=[DelegateCall(index, (0, 0)) for index in range(len(blobs))],
        debug_handles=[()] * len(blobs),
        delegates=[
            Delegate("Some", blob, (("key", b"\x00\xff"),), f"d{i}", {}) for i, blob in enumerate(blobs)
        ],
        memory_plan=MemoryPlan(arena_size=16),
    )
    return EmittedProgram([method])


def test_blobs_of_delegates_are_segments_whose_parts_follow_each_other() -> None:
    data = _bytes(_with_delegates((b"abc", memoryview(b"defg"), b""), (b"h" * 200,)))  # type: ignore[arg-type]
    _, base, _ = _header(data)
    program = _root(data)
    first, second = program.segments
    assert data[base + first.offset :][: first.size] == b"abcdefg"
    assert data[base + second.offset :][: second.size] == b"h" * 200
    assert second.offset == 128
    for index, delegate in enumerate(program.executionPlan[0].delegates):
        assert delegate.processed.location == schema.DataLocation.SEGMENT
        assert delegate.processed.index == index and delegate.id == b"Some"
        assert [bytes(spec.value) for spec in delegate.compileSpecs] == [b"\x00\xff"]


def test_a_delegate_may_be_inline_beside_another() -> None:
    program = _with_delegates((b"abc",), (b"d" * 20, b"e"), (b"fgh",), (b"d" * 20, b"e"))
    for index in (1, 2, 3):
        delegates = program.methods[0].delegates
        delegates[index] = dataclasses.replace(delegates[index], inline=True)
    program.options = ProgramOptions(delegate_alignment=64)
    data = _bytes(program)
    locations = [delegate.processed for delegate in _root(data).executionPlan[0].delegates]
    inline, segment = schema.DataLocation.INLINE, schema.DataLocation.SEGMENT
    assert [(each.location, each.index) for each in locations] == [
        (segment, 0),
        (inline, 0),
        (inline, 1),
        (inline, 0),
    ]
    read = parse_program(data).methods[0].delegates
    assert [bytes(each.blob) for each in read] == [b"abc", b"d" * 20 + b"e", b"fgh", b"d" * 20 + b"e"]
    assert [each.segment for each in read] == [0, None, None, None]
    assert all(data.index(content) % 64 == 0 for content in (b"d" * 20 + b"e", b"fgh"))


@pytest.mark.parametrize("inline", [False, True])
def test_computed_bytes_are_written_some_at_a_time(inline: bool) -> None:
    """Once for delegates that compute the same, and never all at once."""
    size = 3 * 2**20 + 1
    computed = [Counting(size), Counting(size), Counting(size, first=1)]
    program = _with_delegates(*((b"head", item) for item in computed))  # type: ignore[arg-type]
    program.options = ProgramOptions(inline_delegates=inline)
    data = _bytes(program)
    assert 2 * size < len(data) < 2.01 * size
    assert max(item.largest_request for item in computed) <= 2**20
    for delegate, item in zip(parse_program(data).methods[0].delegates, computed, strict=True):
        assert bytes(delegate.blob) == b"head" + item[0:size]


def test_named_data_may_be_computed() -> None:
    size = 3 * 2**20 + 1
    computed = {"a": Counting(size), "b": Counting(size, first=1), "same as a": Counting(size)}
    program = _with_delegates()
    program.named_data = {key: NamedData(item) for key, item in computed.items()}
    data = _bytes(program)
    assert 2 * size < len(data) < 2.01 * size
    assert max(item.largest_request for item in computed.values()) <= 2**20
    named = parse_program(data).named_bytes()
    assert {key: bytes(found) for key, found in named.items()} == {
        key: item[0:size] for key, item in computed.items()
    }


def test_arena_zero_is_reserved() -> None:
    (plan,) = _root(_compile(lambda x: torch.sin(x), X)).executionPlan
    assert plan.nonConstBufferSizes.tolist() == [0, 64]


@pytest.mark.parametrize(
    "value", [0, 1, -1, 2**40, -(2**63), 0.0, -0.0, float("inf"), True, False, "text", "", None]
)
def test_values_come_back(value: Any) -> None:
    program = _with_delegates()
    program.methods[0].values.append(value)
    stored = _root(_bytes(program)).executionPlan[0].values[1].val
    (content,) = vars(stored).values() or (None,)
    content = content.decode() if isinstance(content, bytes) else content
    assert repr(content) == repr(value)


def test_offsets_beyond_32_bits() -> None:
    program = _with_delegates()
    program.methods[0].values[0] = TensorValue(6, (4,), offset=(5 << 32) + 32)
    allocation = _root(_bytes(program)).executionPlan[0].values[0].val.allocationInfo
    assert (allocation.memoryId, allocation.memoryOffsetLow, allocation.memoryOffsetHigh) == (1, 32, 5)


def test_constants_are_not_copied_on_their_way() -> None:
    large = torch.zeros(500, 500)
    program = emit(
        {"forward": edge(Function(lambda self, x: x @ self.large, large=large), torch.ones(1, 500))}
    )
    written: list[Any] = []

    class Sink(io.BytesIO):
        def write(self, data: Any, /) -> int:
            written.append(data)
            return super().write(data)

    write_program(program, Sink())
    constant = program.constants[0]
    views = [chunk for chunk in written if isinstance(chunk, memoryview) and chunk.obj is constant.obj]
    assert sum(map(len, views)) == len(constant) == 1_000_000


if __name__ == "__main__":
    GOLDEN.write_bytes(_scale_and_count())
