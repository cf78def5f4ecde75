# SPDX-License-Identifier: Apache-2.0
"""The blob: layout, flatc as another reader, damage, determinism, constants without copies."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from delegatec_schemas import vulkan_graph as schema
from hypothesis import given

from delegatec.backends.common.testing import Compiled
from delegatec.backends.common.testing.damage import examples, other_lengths, wrong_bits, wrong_words
from delegatec.backends.common.testing.flatc import faults, to_json
from delegatec.backends.vulkan.blob import read_blob, write_blob
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.testing import compile_module
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError

X = torch.randn(1, 2, 5, 5)


def compiled(**options: str) -> Compiled:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.GELU(), torch.nn.Flatten())
    return compile_module(model, (X,), **options)


BLOB = compiled().blobs()[0]


FLATBUFFER = BLOB[32 : 32 + struct.unpack_from("<I", BLOB, 14)[0]]
SCHEMA = "vulkan_graph.fbs"


def test_the_header() -> None:
    magic, header, offset, size, bytes_offset, bytes_size = struct.unpack_from("<4x4sHIIIQ", BLOB)
    assert (magic, header, offset, bytes_size) == (b"VH00", 30, 32, 0)
    assert BLOB[offset + 4 : offset + 8] == b"VK00"
    assert offset + size <= bytes_offset == len(BLOB)
    assert bytes_offset % 16 == 0


def test_flatc_reads_the_same(tmp_path: Path) -> None:
    read = to_json(SCHEMA, FLATBUFFER, tmp_path)
    ours = read_blob(memoryview(BLOB)).graph
    assert [call["name"] for call in read["chain"]] == [call.name.decode() for call in ours.chain]
    assert [call.get("args", []) for call in read["chain"]] == [list(call.args) for call in ours.chain]
    assert len(read["values"]) == len(ours.values)
    assert [each["key"] for each in read["constants"]] == [each.key.decode() for each in ours.constants]


def test_flatc_finds_no_fault(tmp_path: Path) -> None:
    assert faults(SCHEMA, FLATBUFFER, tmp_path) == []
    assert faults(SCHEMA, FLATBUFFER[: len(FLATBUFFER) // 2], tmp_path) != []


def test_constants_are_views_of_the_parameters() -> None:
    model = torch.nn.Linear(4, 4)
    (delegate,) = compile_module(model, (X[0, 0, :1, :4],)).delegates
    parts = {bytes(item.data[:]): item.data for item in delegate.named_data.values()}
    weight = parts[model.weight.detach().numpy().tobytes()]
    model.weight.data.fill_(7)
    assert bytes(weight[:]) == model.weight.detach().numpy().tobytes()


def test_same_bytes_and_keys_each_time() -> None:
    first, second = compiled(), compiled()
    assert first.blobs() == second.blobs() == [BLOB]
    assert list(first.delegates[0].named_data) == list(second.delegates[0].named_data)
    assert compiled(precision="fp16").blobs() != [BLOB]


def _added(graph: Any, kind: int, content: Any) -> int:
    """Adds a value, and returns its id."""
    graph.values.append(schema.ValueT(kind, content))
    return len(graph.values) - 1


def _add_nested_lists(graph: Any) -> None:
    inner = _added(graph, schema.Content.ValueList, schema.ValueListT([0]))
    _added(graph, schema.Content.ValueList, schema.ValueListT([inner]))


EDITS: dict[str, tuple[Callable[[Any], object], str]] = {
    "an input": (lambda g: g.inputIds.append(900), "inputIds contains id 900, but there are"),
    "an input of another type": (
        lambda g: g.inputIds.append(_added(g, schema.Content.Bool, schema.BoolT(True))),
        "which is not a tensor or a SymInt",
    ),
    "an output of another type": (
        lambda g: g.outputIds.append(_added(g, schema.Content.SymInt, schema.SymIntT(1))),
        "which is not a tensor",
    ),
    "no arguments": (lambda g: setattr(g.chain[1], "args", []), "call 1 has no arguments"),
    "an argument": (lambda g: g.chain[0].args.append(-3), "call 0 uses id -3, but there are"),
    "an operator": (lambda g: setattr(g.chain[0], "name", ""), "call 0 has no operator"),
    "a type": (lambda g: setattr(g.values[0].content, "dataType", 44), "unknown type of tensor 0: 44"),
    "a storage": (
        lambda g: setattr(g.values[0].content, "storageType", 9),
        "unknown storage type of tensor 0",
    ),
    "a layout": (
        lambda g: setattr(g.values[0].content, "memoryLayout", 77),
        "unknown memory layout of tensor",
    ),
    "a constant": (
        lambda g: setattr(g.values[0].content, "constantId", 50),
        "tensor 0 is constant 50, but there",
    ),
    "a length": (lambda g: setattr(g.constants[0], "length", 1), "constant 0 has 1 bytes, and tensor"),
    "a key": (lambda g: setattr(g.constants[0], "key", ""), "constant 0 has no key"),
    "an offset": (lambda g: setattr(g.constants[0], "offset", 64), "of a segment of 0 bytes"),
    "a list": (
        lambda g: g.values.insert(0, schema.ValueT(schema.Content.ValueList, schema.ValueListT([5]))),
        "value 0 lists value 5, which does not precede it",
    ),
    "a list of lists": (_add_nested_lists, "which is a list"),
}


@pytest.mark.parametrize(("edit", "message"), EDITS.values(), ids=EDITS)
def test_every_fault_is_named(edit: Callable[[Any], object], message: str) -> None:
    graph = read_blob(memoryview(BLOB)).graph
    edit(graph)
    changed = join(write_blob(graph, checked=False))
    with pytest.raises(DelegatecError, match="DC407") as error:
        read_blob(memoryview(changed))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it has 0 bytes, fewer than a header"),
        (bytes(64), "its header is b'\\\\x00\\\\x00\\\\x00\\\\x00', not b'VH00'"),
        (BLOB[:60], "its header describes a FlatBuffer at 32"),
        (BLOB[:36] + b"XX00" + BLOB[40:], "its FlatBuffer's identifier is b'XX00'"),
    ],
)
def test_other_files(data: bytes, message: str) -> None:
    with pytest.raises(DelegatecError, match=message):
        read_blob(memoryview(data))


def read(data: bytes) -> None:
    """Reads without an error, or raises DC407."""
    try:
        read_blob(memoryview(data))
    except DelegatecError as error:
        assert [each.code for each in error.diagnostics] == ["DC407"]


@examples(300)
@given(wrong_words(BLOB, len(BLOB)))
def test_any_words_may_be_wrong(data: bytes) -> None:
    read(data)


@examples(300)
@given(wrong_bits(BLOB, 0, len(BLOB)))
def test_any_bit_may_be_wrong(data: bytes) -> None:
    read(data)


@examples(100)
@given(other_lengths(BLOB))
def test_bytes_may_be_missing_or_too_many(data: bytes) -> None:
    read(data)


def test_the_offset_of_named_data() -> None:
    assert {each.offset for each in read_blob(memoryview(BLOB)).graph.constants} == {NAMED}
