# SPDX-License-Identifier: Apache-2.0
"""Nodes of the format that rows do not emit, or that have fields of which they use few."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
import torch
from delegatec_schemas import mlx_graph as schema

from delegatec.backends.common.testing import floats
from delegatec.backends.mlx.blob import read_blob, write_blob
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.backends.mlx.reference.unspecified import Unspecified
from delegatec.backends.mlx.testing.nodes import integer, run_node
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError

X: Final = floats(2, 3, 4)
Y: Final = floats(2, 3, 4, seed=1)
_INTS: Final = torch.tensor([7, -7, 6, -6, 0])
_THREES: Final = torch.tensor([3, 3, -3, -3, 3])
_ROW: Final = torch.tensor([3.0, 1.0, 2.0, 5.0])

# name, operands, inputs, other fields, the result
CASES: Final[list[tuple[str, str, tuple[torch.Tensor, ...], dict[str, Any], torch.Tensor]]] = [
    ("LogAddExp", "a b", (X, Y), {}, (X.exp() + Y.exp()).log()),
    ("Atan2", "a b", (X, Y), {}, torch.atan2(X, Y)),
    ("FloorDivide", "a b", (X * 9, Y), {}, (X * 9 / Y).floor()),
    ("Remainder", "a b", (_INTS, _THREES), {}, torch.tensor([1, 2, 0, 0, 0])),
    ("Round", "x", (X,), {"decimals": 1}, (X * 10).round() / 10),
    ("Square", "x", (X,), {}, X * X),
    ("Gelu", "x", (X,), {"approximate": "none"}, X * 0.5 * (1 + torch.erf(X / math.sqrt(2)))),
    ("Clip", "x low", (X, torch.tensor(0.1)), {}, X.clamp(min=0.1)),
    ("Median", "x", (_ROW,), {"axes": [0]}, torch.tensor(2.5)),
    ("Std", "x", (_ROW,), {"axes": [0], "ddof": 1}, torch.tensor(math.sqrt(8.75 / 3))),
    ("Sum", "x", (X,), {"keepdims": True}, X.sum().view(1, 1, 1)),
    ("All", "x", (X > -0.5,), {"axes": [-1]}, (X > -0.5).all(2)),
    ("Cumsum", "x", (_ROW,), {"axis": 0, "inclusive": False}, torch.tensor([0.0, 3.0, 4.0, 6.0])),
    ("Cumsum", "x", (_ROW,), {"axis": 0, "reverse": True}, torch.tensor([11.0, 8.0, 7.0, 5.0])),
    ("Partition", "x", (_ROW,), {"axis": 0, "kth": integer(1)}, torch.tensor([1.0, 2.0, 3.0, 5.0])),
    ("Stack", "tensors*", (X, Y), {"axis": 1}, torch.stack([X, Y], 1)),
    ("Repeat", "x", (_ROW,), {"repeats": integer(2), "axis": 0}, _ROW.repeat_interleave(2)),
    ("Tril", "x", (X,), {"k": 1}, X.tril(1)),
    ("Triu", "x", (X,), {"k": -1}, X.triu(-1)),
    ("Flip", "x", (X,), {"axes": [0, 2]}, X.flip(0, 2)),
    ("Squeeze", "x", (X[:, :1],), {"dims": None}, X[:, 0]),
    (
        "Pad",
        "x",
        (_ROW,),
        {"amounts": [integer(1), integer(2)], "mode": "edge"},
        torch.tensor([3.0, 3.0, 1.0, 2.0, 5.0, 5.0, 5.0]),
    ),
    (
        "Slice",
        "x",
        (_ROW,),
        {"axis": integer(0), "start": integer(2**40), "stop": integer(-(2**40)), "step": -2},
        torch.tensor([5.0, 1.0]),
    ),
    (
        "SliceUpdate",
        "dst update",
        (_ROW, torch.tensor([8.0, 9.0])),
        {"axis": integer(0), "start": integer(-3), "stop": integer(2**40), "step": 2},
        torch.tensor([3.0, 8.0, 2.0, 9.0]),
    ),
    (
        "IndexCopy",
        "dst update indices",
        (_ROW, torch.tensor([8.0, 9.0]), torch.tensor([-1, -1])),
        {"axis": 0},
        torch.tensor([3.0, 1.0, 2.0, 9.0]),
    ),
    (
        "Argmax",
        "x",
        (torch.tensor([1.0, math.nan, 3.0, math.nan]),),
        {"axis": 0},
        torch.tensor(2).to(torch.uint32),
    ),
    ("Argmin", "x", (torch.tensor([math.nan, 2.0, 1.0]),), {"axis": 0}, torch.tensor(0).to(torch.uint32)),
    ("FullLike", "x", (X,), {"value": schema.FloatT(literal=0.5)}, torch.full((2, 3, 4), 0.5)),
]


@pytest.mark.parametrize(("name", "operands", "inputs", "fields", "wanted"), CASES)
def test_nodes(
    name: str, operands: str, inputs: tuple[torch.Tensor, ...], fields: dict[str, Any], wanted: torch.Tensor
) -> None:
    (result,) = run_node(name, operands.split(), inputs, **fields)
    torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize(
    ("name", "inputs", "fields", "message"),
    [
        ("Round", (X,), {"decimals": 1000}, "Round: "),
        ("Pad", (_INTS,), {"amounts": [integer(1)] * 2, "mode": "constant", "value": math.inf}, "Pad: "),
        ("Tile", (X,), {"reps": [integer(2**30)] * 3}, "has more than"),
        ("Repeat", (X,), {"repeats": integer(2**31 - 1), "axis": 0}, "has more than"),
        (
            "Pad",
            (X,),
            {"amounts": [integer(2**30)] * 6, "mode": "constant", "value": 0.0},
            "has more than",
        ),
    ],
)
def test_damaged_nodes_are_refused(
    name: str, inputs: tuple[torch.Tensor, ...], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(DelegatecError, match=message) as error:
        run_node(name, ["x"], inputs, **fields)
    assert [each.code for each in error.value.diagnostics] == ["DC408"]


def test_a_buffer_that_is_too_large_is_refused() -> None:
    most = 2**31 - 1
    graph = schema.GraphT(
        version="1",
        numBuffers=1,
        chains=[schema.ChainT([])],
        buffers=[schema.SlotT(0)],
        tensors=[schema.TensorMetaT([schema.SizeT(most)] * 3, 6)],
    )
    with pytest.raises(DelegatecError, match="has more than"):
        MlxReferenceExecutor(read_blob(memoryview(join(write_blob(graph)))))([])


def test_quotients_of_integers_are_floats() -> None:
    """The runtime divides integers exactly, and subtracts 1 where it should round down."""
    (result,) = run_node("FloorDivide", ["a", "b"], [_INTS, _THREES])
    torch.testing.assert_close(result, torch.tensor([7 / 3, -7 / 3 - 1, -2, 2, 0]))


def test_split_into_equal_parts() -> None:
    parts = run_node("Split", ["x"], [_ROW], results=2, sizes=[integer(3)], axis=0)
    assert [part.tolist() for part in parts] == [[3.0, 1.0, 2.0], [5.0]]


@pytest.mark.parametrize("traditional", [False, True])
def test_rotations(traditional: bool) -> None:
    """Pairs of elements are points, which each position turns by other angles."""
    x, offset, dims = floats(1, 2, 3, 6), 5, 4
    wanted = x.clone()
    for t in range(3):
        for pair in range(dims // 2):
            angle = (t + offset) * 0.5 * 100.0 ** (-pair / (dims // 2))
            first, second = (2 * pair, 2 * pair + 1) if traditional else (pair, pair + dims // 2)
            point = torch.complex(x[..., t, first], x[..., t, second])
            turned = point * torch.polar(torch.tensor(1.0), torch.tensor(angle))
            wanted[..., t, first], wanted[..., t, second] = turned.real, turned.imag
    position = schema.ValueOrTensorT(tensor=schema.TensorT(1))
    fields = {"dims": dims, "traditional": traditional, "base": 100.0, "scale": 0.5, "offset": position}
    (result,) = run_node("Rope", ["x"], [x, torch.tensor(offset)], **fields)
    torch.testing.assert_close(result, wanted)


def test_causal_attention_aligns_the_last_rows() -> None:
    q, k, v = floats(1, 2, 2, 4), floats(1, 1, 3, 4, seed=1), floats(1, 1, 3, 4, seed=2)
    (result,) = run_node("Sdpa", ["q", "k", "v"], [q, k, v], scale=0.5, causal=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=0.5, enable_gqa=True)
    torch.testing.assert_close(result, wanted)


def test_fully_masked_rows_are_unspecified() -> None:
    q, k, v = (floats(1, 1, 2, 4, seed=seed) for seed in range(3))
    mask = torch.tensor([[[[True, False], [False, False]]]])
    operands = ["q", "k", "v", "mask"]
    (average,) = run_node("Sdpa", operands, [q, k, v, mask], scale=0.5)
    torch.testing.assert_close(average[0, 0, 1], v[0, 0].mean(0))
    (missing,) = run_node("Sdpa", operands, [q, k, v, mask], Unspecified(masked_rows="nan"), scale=0.5)
    assert missing[0, 0, 1].isnan().all()
    assert torch.equal(missing[0, 0, 0], average[0, 0, 0])


def test_the_order_of_equal_elements_is_unspecified() -> None:
    x = torch.tensor([2.0, 1.0, 2.0])
    orders = [
        run_node("Argsort", ["x"], [x], Unspecified(ties=ties), axis=0)[0] for ties in ("first", "last")
    ]
    assert [order.tolist() for order in orders] == [[1, 0, 2], [1, 2, 0]]
    with pytest.raises(DelegatecError, match="the order of equal elements"):
        run_node("Argsort", ["x"], [x], Unspecified.strict(), axis=0)


@pytest.mark.parametrize(("reads", "wanted"), [("zero", [0.0, 1.0]), ("first", [3.0, 1.0])])
def test_indices_beyond_a_dimension(reads: Any, wanted: list[float]) -> None:
    index = schema.IndexT(kind=2, tensor=schema.TensorT(1))
    inputs = [_ROW, torch.tensor([9, 1])]
    (result,) = run_node("Take", ["x"], inputs, Unspecified(reads=reads), axis=0, index=index)
    assert result.tolist() == wanted
    with pytest.raises(DelegatecError, match="an index beyond the dimension"):
        run_node("Take", ["x"], inputs, axis=0, index=index)


def test_random_bits_are_not_run() -> None:
    with pytest.raises(DelegatecError, match="the reference executor has no RandomBits") as error:
        run_node("RandomBits", [], [X], shape=[integer(2)])
    assert [each.code for each in error.value.diagnostics] == ["DC408"]


def _slot(id: int) -> schema.TensorT:
    return schema.TensorT(id)


def test_a_scan_keeps_its_carry() -> None:
    """A sum of the rows so far, for each row."""
    scan = schema.ScanT(
        originals=[_slot(0)], sliced=[_slot(3)], outputs=[_slot(2)], carry=[_slot(4)], body=1, axis=0
    )
    full = schema.FullT(out=_slot(4), shape=[integer(4)], value=schema.FloatT(), dtype=6)
    add = schema.BinaryT(a=_slot(4), b=_slot(3), out=_slot(4))
    copied = schema.UnaryT(x=_slot(4), out=_slot(2))
    node, chain = schema.InstructionT, schema.ChainT
    graph = schema.GraphT(
        version="1",
        numInputs=2,
        numOutputs=1,
        numTemporaries=2,
        chains=[
            chain([node(schema.Node.Full, full), node(schema.Node.Scan, scan)]),
            chain([node(schema.Node.Add, add), node(schema.Node.IdCopy, copied)]),
        ],
        inputs=[schema.SlotT(0), schema.SlotT(1)],
        outputs=[schema.SlotT(2)],
        tensors=[schema.TensorMetaT([schema.SizeT(3), schema.SizeT(4)], 6)] * 2,
    )
    rows = floats(3, 4)
    executor = MlxReferenceExecutor(read_blob(memoryview(join(write_blob(graph)))))
    torch.testing.assert_close(executor([rows, rows])[0], rows.cumsum(0))


@pytest.mark.parametrize(("condition", "wanted"), [(1, 2.0), (0, -1.0)])
def test_an_if_runs_one_branch(condition: int, wanted: float) -> None:
    """Its condition is an integer that is read from a tensor."""
    value, number = schema.ValueT(0), schema.FloatT
    choice = schema.IfT(condition=schema.IntT(value=value, isValue=True), yes=1, no=2)
    branches = [
        schema.FullT(out=_slot(1), shape=[], value=number(literal=each), dtype=6) for each in (2.0, -1.0)
    ]
    node, chain = schema.InstructionT, schema.ChainT
    item = schema.ItemT(x=_slot(0), out=value)
    graph = schema.GraphT(
        version="1",
        numInputs=1,
        numOutputs=1,
        numValues=1,
        chains=[
            chain([node(schema.Node.Item, item), node(schema.Node.If, choice)]),
            *(chain([node(schema.Node.Full, each)]) for each in branches),
        ],
        inputs=[schema.SlotT(0)],
        outputs=[schema.SlotT(1)],
        tensors=[schema.TensorMetaT([], 3)],
    )
    executor = MlxReferenceExecutor(read_blob(memoryview(join(write_blob(graph)))))
    assert executor([torch.tensor(condition, dtype=torch.int32)])[0].item() == wanted
