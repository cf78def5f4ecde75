# SPDX-License-Identifier: Apache-2.0
"""Chains of functions between quantized values are split where the runtime could not copy them."""

from __future__ import annotations

from typing import Final

import pytest
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.building.draft import Draft
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.operands import OPERATION_NAMES
from delegatec.delegation.protocol.parts import chunks

_ABBREVIATIONS: Final = {
    "t": Operation.Tanh,
    "c": Operation.Convert,
    "a": Operation.Add,
    "l": Operation.Add,
    "x": Operation.Multiply,
    "r": Operation.Subtract,
    "s": Operation.Softmax,
}


def _simplified(text: str, shape: list[int], outputs: tuple[int, ...] = ()) -> Draft:
    """Returns a graph of a chain: a letter for each operation, in capitals if its result is quantized."""
    draft = Draft()

    def value(is_quantized: bool, sizes: list[int] = shape, constant: int = 0) -> int:
        if is_quantized:
            return draft.value(DataType.INT8, sizes, schema.ScaleOfTensorT(0.1, 0))
        return draft.value(DataType.FLOAT32, sizes, constant_id=constant)

    other_input = value(False)
    first = last = value(True)
    draft.inputs = [other_input, first]
    for letter in text:
        result = value(letter.isupper())
        kind = letter.lower()
        if kind in ("a", "l", "r", "x"):
            other = {"x": first, "r": other_input}.get(kind)
            if other is None:
                other = value(False, [1], draft.constant(bytes(4)))
            table = schema.BinaryT(last, other, result, 0)
        else:
            table = schema.UnaryT(last, result, 0)
        limits = schema.LimitsT(-1.0, 1.0) if kind == "l" else None
        draft.steps.append(Step(schema.NodeT(_ABBREVIATIONS[kind], table, 0, limits), ()))
        last = result
    draft.outputs = [*outputs, last]
    draft.simplify()
    return draft


def _names(draft: Draft) -> list[str]:
    return [OPERATION_NAMES[step.node.operationType] for step in draft.steps]


@pytest.mark.parametrize(
    ("text", "splits"),
    [
        ("T" * 9, []),
        ("T" * 10, [9]),
        ("T" * 19, [9, 19]),
        ("ctC" * 3, []),
        ("ctC" * 4, [9]),
        ("cCt" * 4, [8]),
        ("t" * 12, [9]),
        ("A" * 9, []),
        ("A" * 10, [9]),
        ("L" * 4, []),
        ("L" * 5, [4]),
        ("TTTTSTTTTT", []),
        ("X" * 12, []),
        ("T" + "X" * 8, []),
        ("T" + "X" * 9, [9]),
    ],
)
def test_where_chains_are_split(text: str, splits: list[int]) -> None:
    found = _names(_simplified(text, [2, 3]))
    assert [index for index, name in enumerate(found) if name == "Transpose"] == splits
    assert len(found) == len(text) + len(splits)


def test_values_with_other_readers_end_a_chain() -> None:
    assert "Transpose" not in _names(_simplified("T" * 12, [2, 3], outputs=(6,)))


def _read(draft: Draft) -> schema.GraphT:
    blob = b"".join(chunk for part in draft.blob() for chunk in chunks(part))
    return read_blob(memoryview(blob)).graph


def test_a_move_keeps_type_scale_and_sizes() -> None:
    graph = _read(_simplified("T" * 10, [2, 3]))
    move = graph.nodes[9].operation
    assert (move.permutation, move.numDims) == ([0, 1], 2)
    ends = [
        each.content
        for each in graph.values
        if isinstance(each.content, schema.QuantizedTensorT)
        and each.content.tensor.id in (move.inputId, move.outputId)
    ]
    assert [(list(end.tensor.dims), end.tensor.dataType) for end in ends] == [([2, 3], DataType.INT8)] * 2
    assert ends[0].quantization.scale == ends[1].quantization.scale != 0


def test_scalars_are_reshaped() -> None:
    assert _names(_simplified("T" * 10, []))[9] == "Reshape"


@pytest.mark.parametrize(
    ("text", "splits"), [("TCr", []), ("ACr", [2]), ("Ar", [1]), ("Trt", []), ("Arta", [1])]
)
def test_a_chain_with_a_binary_operation_ends_before_one_that_reads_the_first_input(
    text: str, splits: list[int]
) -> None:
    found = _names(_simplified(text, [1]))
    assert [index for index, name in enumerate(found) if name == "Transpose"] == splits
