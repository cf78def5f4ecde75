# SPDX-License-Identifier: Apache-2.0
"""The blob: layout, validation by flatc, determinism, constants as named data, damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from delegatec_schemas import mlx_graph as schema
from hypothesis import given

from delegatec.backends.common.testing.damage import examples, other_lengths, wrong_words
from delegatec.backends.common.testing.flatc import faults, to_json
from delegatec.backends.mlx.blob import HEADER, MAGIC, read_blob, write_blob
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.backends.mlx.testing import compile_module, operations
from delegatec.delegation import format_blob_graph
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError


class Small(torch.nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).clamp(min=0.0).mean((2, 3))
        result: torch.Tensor = self.linear(y * 3.0).split([1, 3], 1)[1] - 3.0
        return result


X: Final = torch.randn(1, 1, 5, 5)
_SCHEMA: Final = "mlx_graph.fbs"


def blob_of(module: torch.nn.Module, precision: str = "fp32") -> bytes:
    (blob,) = compile_module(module, (X,), precision).blobs()
    return blob


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_layout(precision: str) -> None:
    data = blob_of(Small(), precision)
    magic, end, size = HEADER.unpack_from(data)
    assert (data[:4], magic, end, size) == (bytes(4), MAGIC, len(data), 0)
    assert len(data) % 16 == 0


def test_flatc_reads_it(tmp_path: Path) -> None:
    data = blob_of(Small())
    parsed = to_json(_SCHEMA, data[HEADER.size :], tmp_path)
    chain = parsed["chains"][parsed.get("main_chain", 0)]
    assert [each["node_type"] for each in chain["instructions"]] == operations(data)
    assert faults(_SCHEMA, data[HEADER.size :], tmp_path) == []


def test_same_bytes_in_any_order() -> None:
    alone = blob_of(Small(1))
    blob_of(Small(2))
    assert blob_of(Small(1)) == alone
    assert blob_of(Small(2)) != alone


def test_constants_are_named_by_their_bytes() -> None:
    """Weights are views of the parameters; methods with equal weights share them."""
    module = Small().eval()
    (first,) = compile_module(module, (X,)).delegates
    (second,) = compile_module(module, (torch.randn(2, 1, 7, 7),)).delegates
    weight = module.linear.weight.detach()
    (key,) = (
        key for key, each in first.named_data.items() if bytes(join([each.data])) == weight.numpy().tobytes()
    )
    assert key in second.named_data
    with torch.no_grad():
        weight.fill_(42.0)
    assert bytes(join([first.named_data[key].data])) == weight.numpy().tobytes()


def test_a_tied_weight_is_stored_once() -> None:
    """It is read as a table, and as a matrix that is transposed when the delegate is loaded."""

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(7, 4)

        def forward(self, index: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(self.table(index), self.table.weight)

    module, index = Tied().eval(), torch.tensor([3, 1])
    compiled = compile_module(module, (index,))
    (delegate,) = compiled.delegates
    assert len(delegate.named_data) == 1
    torch.testing.assert_close(compiled(index)[0], module(index))


# ---- graphs made by hand -----------------------------------------------------------------------------------


def tensor(id: int) -> schema.TensorT:
    return schema.TensorT(id)


def meta(*sizes: int, dtype: int = 6) -> schema.TensorMetaT:
    return schema.TensorMetaT(sizes=[schema.SizeT(size) for size in sizes], dtype=dtype)


def instruction(name: str, table: Any) -> schema.InstructionT:
    return schema.InstructionT(getattr(schema.Node, name), table)


def graph() -> schema.GraphT:
    """Constant 0, input 1, output 2, temporary 3: the transposed input plus the constant."""
    transposed = schema.TransposeT(x=tensor(1), out=tensor(3), perm=[1, 0])
    added = schema.BinaryT(a=tensor(3), b=tensor(0), out=tensor(2))
    return schema.GraphT(
        version="1",
        numConstants=1,
        numInputs=1,
        numOutputs=1,
        numTemporaries=1,
        chains=[schema.ChainT([instruction("Transpose", transposed), instruction("Add", added)])],
        inputs=[schema.SlotT(1)],
        outputs=[schema.SlotT(2)],
        names=[schema.NameT("weight", schema.SlotT(0))],
        tensors=[meta(2, 3), meta(3, 2), meta(2, 3)],
    )


def packed(graph: schema.GraphT) -> bytes:
    return join(write_blob(graph, checked=False))


def executor(data: bytes) -> MlxReferenceExecutor:
    found = MlxReferenceExecutor(read_blob(memoryview(data)), max_elements=1 << 20)
    found.load_named_data({"weight": memoryview(torch.arange(6.0).numpy().tobytes())})
    return found


def test_a_graph_made_by_hand_runs() -> None:
    (result,) = executor(packed(graph()))([torch.ones(3, 2)])
    assert torch.equal(result, torch.arange(6.0).view(2, 3) + 1)


def _set(path: str, value: object) -> Callable[[schema.GraphT], None]:
    def edit(graph: schema.GraphT) -> None:
        *parts, last = path.split(".")
        owner: Any = graph
        for part in parts:
            owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
        if last.isdigit():
            owner[int(last)] = value
        else:
            setattr(owner, last, value)

    return edit


_SCAN: Final = schema.ScanT(originals=[], sliced=[], outputs=[], carry=[], body=0)
_UPDATE: Final = schema.SliceUpdateT(
    dst=tensor(0),
    update=tensor(3),
    out=tensor(2),
    axis=schema.IntT(),
    start=schema.IntT(),
    stop=schema.IntT(),
)
_WRONG: Final[list[tuple[Callable[[schema.GraphT], None], str]]] = [
    (_set("version", "2"), "its version is 2, not 1"),
    (_set("mainChain", 1), "its main chain is 1 of 1"),
    (_set("initChain", 4), "its init chain is 4 of 1"),
    (_set("numTemporaries", 2_000_000), "more than 1000000"),
    (_set("inputs.0.id", 4), "inputs contains slot 4 of 4"),
    (_set("outputs.0.type", 2), "outputs contains a slot of type 2"),
    (_set("buffers", [schema.SlotT(1)]), "slot 1 is not that of a buffer"),
    (_set("names", []), "constant 0 has no name"),
    (_set("tensors", []), "tensor 0 has no sizes"),
    (_set("tensors.0.dtype", 7), "unknown dtype of tensor 0: 7"),
    (_set("tensors.0.sizes.1.value", -1), "tensor 0 has a size -1"),
    (_set("chains.0.instructions.0.node.out.id", 9), "uses tensor id 9, but there are 4 values"),
    (_set("chains.0.instructions.0.node.perm", None), "Transpose, has no perm"),
    (_set("chains.0.instructions.1.node.out.id", 0), "Add, writes to a constant"),
    (_set("chains.0.instructions.1", instruction("SliceUpdate", _UPDATE)), "SliceUpdate, updates a constant"),
    (_set("chains.0.instructions.1", instruction("Scan", _SCAN)), "chain 0 runs itself"),
]


@pytest.mark.parametrize(("edit", "message"), _WRONG, ids=[message for _, message in _WRONG])
def test_wrong_graphs(edit: Callable[[schema.GraphT], None], message: str) -> None:
    damaged = graph()
    edit(damaged)
    with pytest.raises(DelegatecError) as read:
        read_blob(memoryview(packed(damaged)))
    assert [each.code for each in read.value.diagnostics] == ["DC407"]
    assert message in read.value.diagnostics[0].message
    with pytest.raises(DelegatecError, match="DC407"):
        write_blob(damaged)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes, fewer than its header"),
        (bytes(24), "its magic is"),
        (HEADER.pack(MAGIC, 99, 0), "ends at 99 of 24 bytes"),
    ],
)
def test_wrong_headers(data: bytes, message: str) -> None:
    with pytest.raises(DelegatecError, match=message):
        read_blob(memoryview(data))


BLOB: Final = packed(graph())


def _reads(data: bytes) -> None:
    """Reads, prints and runs a blob: only with the errors of a damaged one."""
    try:
        found = read_blob(memoryview(data))
        format_blob_graph(blob_graph(found))
        executor(data)([torch.ones(3, 2)])
    except DelegatecError as error:
        assert {each.code for each in error.diagnostics} <= {"DC407", "DC408", "DC440"}


@examples(200)
@given(wrong_words(BLOB, len(BLOB)))
def test_wrong_words(data: bytes) -> None:
    _reads(data)


@examples(100)
@given(other_lengths(BLOB))
def test_other_lengths(data: bytes) -> None:
    _reads(data)
