# SPDX-License-Identifier: Apache-2.0
"""Regions of blobs: written regions are read, shown and run; damaged ones are problems."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import flatbuffers
import pytest
import torch
from delegatec_schemas import tosa_graph as schema
from delegatec_schemas.tosa_graph import DType, Op

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.conformance.problem import problem
from delegatec.backends.arm.graph import blob_graph
from delegatec.backends.arm.reference import TosaReferenceExecutor
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.backends.arm.testing import compile_module
from delegatec.backends.common.testing import Call, X
from delegatec.delegation import BlobLabels, blob_graph_json, format_blob_graph
from delegatec.diagnostics import DelegatecError

Edit = Callable[[schema.GraphT], None]


def _picked(x: torch.Tensor) -> torch.Tensor:
    picked: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x.sin() + 0.5, lambda x: x.cos(), (x,))
    return picked


def test_text_and_json() -> None:
    compiled = compile_module(Call(_picked), (X,), specification="TOSA-1.0+FP+cf")
    (blob,) = compiled.blobs()
    graph = blob_graph(read_blob(memoryview(blob)))
    text = format_blob_graph(graph, BlobLabels())
    assert "then_graph=true_graph_0, else_graph=false_graph_0" in text
    parts = text.split("  true_graph_0:\n")[1].split("  false_graph_0:\n")
    assert ["SIN" in part for part in parts] == [True, False]
    assert ["COS" in part for part in parts] == [False, True]
    ids = [node.identifier for part in graph.walk() for node in part.nodes]
    assert ids == list(range(len(ids)))
    (delegate,) = compiled.delegates
    assert set(delegate.debug_handle_map) <= set(ids) and len(delegate.debug_handle_map) == len(ids)
    contents = json.loads(json.dumps(blob_graph_json(graph)))
    assert [each["operation"] for each in contents["bodies"]["false_graph_0"]["operations"]] == ["COS"]


def _tensor(name: str, dtype: int = DType.FP32, *shape: int) -> schema.TensorT:
    return schema.TensorT(name, list(shape), dtype)


def _region(
    name: str, tensors: list[schema.TensorT], operators: list[Any], inputs: list[str], outputs: list[str]
) -> schema.RegionT:
    packed = [schema.OperatorT(op, op, attribute, given, made) for op, attribute, given, made in operators]
    return schema.RegionT(name, [schema.BlockT(name, packed, tensors, inputs, outputs, [])])


def _condition() -> schema.GraphT:
    """A condition of SIN or COS."""
    call = (Op.COND_IF, schema.ConditionalT("then", "else"), ["c", "x"], ["y"])
    main = _region(
        "main",
        [_tensor("c", DType.BOOL), _tensor("x", DType.FP32, 2), _tensor("y", DType.FP32, 2)],
        [call],
        ["c", "x"],
        ["y"],
    )
    bodies = [
        _region(
            name,
            [_tensor(f"{name}.x", DType.FP32, 2), _tensor(f"{name}.y", DType.FP32, 2)],
            [(op, schema.NothingT(), [f"{name}.x"], [f"{name}.y"])],
            [f"{name}.x"],
            [f"{name}.y"],
        )
        for name, op in (("then", Op.SIN), ("else", Op.COS))
    ]
    return schema.GraphT(schema.VersionT(1, 0, 0, False), [main, *bodies])


def _loop() -> schema.GraphT:
    """A loop that never ends."""
    call = (Op.WHILE_LOOP, schema.LoopT("more", "step"), ["c"], ["d"])
    main = _region("main", [_tensor("c", DType.BOOL), _tensor("d", DType.BOOL)], [call], ["c"], ["d"])
    bodies = [
        _region(
            name,
            [_tensor(f"{name}.c", DType.BOOL), _tensor(f"{name}.d", DType.BOOL)],
            [(op, schema.NothingT(), [f"{name}.c"], [f"{name}.d"])],
            [f"{name}.c"],
            [f"{name}.d"],
        )
        for name, op in (("more", Op.IDENTITY), ("step", Op.IDENTITY))
    ]
    return schema.GraphT(schema.VersionT(1, 0, 0, False), [main, *bodies])


def _packed(graph: schema.GraphT) -> memoryview:
    builder = flatbuffers.Builder(0)
    builder.Finish(graph.Pack(builder), file_identifier=b"TOSA")
    return memoryview(bytes(builder.Output()))


def test_a_condition_runs_one_branch() -> None:
    run = TosaReferenceExecutor(read_blob(_packed(_condition())))
    x = torch.tensor([0.5, 1.0])
    for flag, wanted in ((True, x.sin()), (False, x.cos())):
        assert torch.equal(run([torch.tensor(flag), x])[0], wanted)


def test_an_endless_loop_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delegatec.backends.arm.reference.executor._MOST_ITERATIONS", 50)
    run = TosaReferenceExecutor(read_blob(_packed(_loop())))
    assert not run([torch.tensor(False)])[0].item()
    with pytest.raises(DelegatecError, match="more than 50 iterations"):
        run([torch.tensor(True)])


def _rename(graph: schema.GraphT) -> None:
    graph.regions[2].name = "then"


def _call_absent(graph: schema.GraphT) -> None:
    graph.regions[0].blocks[0].operators[0].attribute.elseGraph = "none"


def _call_none(graph: schema.GraphT) -> None:
    graph.regions[0].blocks[0].operators[0].attribute.elseGraph = None


def _unused(graph: schema.GraphT) -> None:
    graph.regions[0].blocks[0].operators[0].attribute.elseGraph = "then"


def _other_shape(graph: schema.GraphT) -> None:
    graph.regions[1].blocks[0].tensors[1].shape = [3]


def _other_type(graph: schema.GraphT) -> None:
    graph.regions[1].blocks[0].tensors[0].type = DType.FP16


def _no_output(graph: schema.GraphT) -> None:
    graph.regions[1].blocks[0].outputs = []


def _two_blocks(graph: schema.GraphT) -> None:
    graph.regions[1].blocks *= 2


def _no_block(graph: schema.GraphT) -> None:
    graph.regions[1].blocks = []


def _large_condition(graph: schema.GraphT) -> None:
    graph.regions[0].blocks[0].tensors[0].shape = [2]


def _itself(graph: schema.GraphT) -> None:
    body = graph.regions[1].blocks[0]
    body.tensors.append(schema.TensorT("then.c", [], DType.BOOL, [1]))
    body.operators[0].op = body.operators[0].attributeType = Op.COND_IF
    body.operators[0].attribute = schema.ConditionalT("then", "then")
    body.operators[0].inputs = ["then.c", "then.x"]


_DAMAGED: Final[list[tuple[Edit, str]]] = [
    (_rename, "two regions have one name"),
    (_call_absent, "region b'none' is absent"),
    (_call_none, "region None is absent"),
    (_unused, "no operator runs region b'else'"),
    (_other_shape, "region b'then' has other inputs or outputs"),
    (_other_type, "region b'then' has other inputs or outputs"),
    (_no_output, "region b'then' has other inputs or outputs"),
    (_two_blocks, "has 2 blocks"),
    (_no_block, "has 0 blocks"),
    (_large_condition, "its condition is not one BOOL"),
    (_itself, "a region that runs itself"),
]


@pytest.mark.parametrize(("edit", "problem"), _DAMAGED, ids=lambda each: getattr(each, "__name__", ""))
def test_damaged_regions(edit: Edit, problem: str) -> None:
    graph = _condition()
    edit(graph)
    with pytest.raises(DelegatecError, match=problem):
        read_blob(_packed(graph))


def test_damaged_loops() -> None:
    graph = _loop()
    graph.regions[1].blocks[0].tensors[1].shape = [2]
    with pytest.raises(DelegatecError, match="its condition is not one BOOL"):
        read_blob(_packed(graph))
    graph = _loop()
    graph.regions[0].blocks[0].tensors[1].type = DType.INT8
    with pytest.raises(DelegatecError, match="its results have other types than its operands"):
        read_blob(_packed(graph))


@pytest.mark.parametrize(
    ("specification", "name", "inputs", "result", "expected"),
    [
        ("TOSA-1.0+FP+cf", "COND_IF", [DType.BOOL, DType.FP32], DType.FP32, ""),
        ("TOSA-1.0+INT+cf", "COND_IF", [DType.BOOL, DType.INT8], DType.INT8, ""),
        ("TOSA-1.0+FP", "COND_IF", [DType.BOOL], DType.FP32, "needs the extension cf"),
        ("TOSA-1.0+INT+cf", "COND_IF", [DType.BOOL, DType.FP32], DType.INT8, "needs the profile FP"),
        ("TOSA-1.0+INT+cf", "COND_IF", [DType.INT8, DType.INT8], DType.INT8, "must be one BOOL"),
        ("TOSA-1.0+INT+cf", "WHILE_LOOP", [DType.INT32], DType.INT32, ""),
        ("TOSA-1.0+INT", "WHILE_LOOP", [DType.INT32], DType.INT32, "needs the extension cf"),
        ("TOSA-1.0+INT+cf", "WHILE_LOOP", [DType.INT32], DType.INT8, "results INT8[1] of operands INT32[1]"),
    ],
)
def test_conformance(specification: str, name: str, inputs: list[int], result: int, expected: str) -> None:
    operands = tuple(Value(f"x{index}", dtype, (1,)) for index, dtype in enumerate(inputs))
    operation = Operation(name, operands, (Value("y", result, (1,)),), {})
    found = problem(operation, TosaSpecification.parse(specification)) or ""
    assert expected in found and bool(found) == bool(expected)
