# SPDX-License-Identifier: Apache-2.0
"""Our ETRecords in the peer's developer tools: they open them, run the program, and join them with a run."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.devtools.etrecord import parse_etrecord
from executorch.devtools.inspector import Inspector, TimeScale
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.serde import schema as peer_schema
from torch._export.serde import schema
from torch._export.serde.union import _Union
from torch.export import Dim, ExportedProgram, export

from delegatec.delegation import PartitionRules
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import Program, lower
from delegatec.program.emitted import DelegateCall
from delegatec.report.debug_map import debug_map_json
from delegatec.report.etrecord import write_etrecord
from delegatec.report.graph_json import (
    ADDED_FIELDS,
    ADDED_KINDS,
    LAST_COMMON_DTYPE,
    MOVED_DTYPES,
    SCHEMA_VERSION,
)
from tests.peer.etdump import etdump, logged, timed


class Inner(torch.nn.Module):
    """[batch, 8] to two of the same."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        return torch.nn.functional.silu(y), y + 1


class Model(torch.nn.Module):
    """A parameter, a buffer that is written to, a constant, and an operator that MPS does not support."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.register_buffer("total", torch.zeros(8))
        self.shift = torch.arange(8.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = self.inner(x)
        running = torch.cumsum(first, 1) * second
        self.total.add_(running.sum(0))
        turned = (running + self.shift).view(-1, 2, 4).transpose(1, 2).reshape(-1, 8)  # row-major in programs
        values, _ = torch.topk(turned, 2)
        return torch.exp(-values.abs() / 8), self.total * 2


INPUT = torch.linspace(-1, 1, 24).reshape(3, 8)


def _model() -> Model:
    torch.manual_seed(0)
    return Model().eval()


def _exported(*, dynamic: bool = False) -> ExportedProgram:
    shapes = {"x": {0: Dim("batch", min=2, max=9)}} if dynamic else None
    return export(_model(), (INPUT,), dynamic_shapes=shapes)


def _lowered(backend: str, *, dynamic: bool = False) -> Program:
    # So that not all is one delegate.
    rules = PartitionRules(block_operators=() if backend == "portable" else ("aten.cumsum",))
    return lower({"forward": _exported(dynamic=dynamic)}, backend, rules=rules, keep_record=True)


def _written(lowered: Program, folder: Path) -> str:
    path = folder / "model.etrecord"
    with open(path, "wb") as file:
        write_etrecord(lowered.records, lowered.emitted, file)
    return str(path)


def _debug_map(lowered: Program) -> Any:
    return json.loads(debug_map_json(lowered.sources, lowered.emitted))["methods"]["forward"]


CASES = [("portable", False), ("portable", True), ("mps", False)]


@pytest.mark.parametrize(("backend", "dynamic"), CASES)
def test_the_recorded_program_agrees_with_eager_mode(tmp_path: Path, backend: str, dynamic: bool) -> None:
    record = parse_etrecord(_written(_lowered(backend, dynamic=dynamic), tmp_path))
    program = record.edge_dialect_program.module()
    inputs = torch.rand(5, 8) if dynamic else INPUT
    expected, got = _model()(inputs), program(inputs)
    assert expected[0].abs().max() > 0.01 and expected[1].abs().max() > 1
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(record._representative_inputs[0], INPUT)


@pytest.mark.parametrize(("backend", "dynamic"), CASES)
def test_handles_of_the_recorded_program_are_those_of_the_debug_map(
    tmp_path: Path, backend: str, dynamic: bool
) -> None:
    lowered = _lowered(backend, dynamic=dynamic)
    record = parse_etrecord(_written(lowered, tmp_path))
    found: dict[str, list[str]] = {}
    for node in record.edge_dialect_program.graph.nodes:
        if node.op == "call_function" and "getitem" not in str(node.target):
            name = str(node.target).replace("_copy.", ".")  # views are copies there
            found.setdefault(str(node.meta["debug_handle"]), []).append(name)
    handles = _debug_map(lowered)["handles"]
    expected = {
        handle: [name for name in entry["operators"] if name != "getitem"]
        for handle, entry in handles.items()
    }
    assert found == {handle: names for handle, names in expected.items() if names}


def test_maps_are_those_of_the_program(tmp_path: Path) -> None:
    lowered = _lowered("mps")
    record = parse_etrecord(_written(lowered, tmp_path))
    (method,) = lowered.emitted.methods
    delegates = [i for i, step in enumerate(method.instructions) if isinstance(step, DelegateCall)]
    assert 0 < len(delegates) < len(method.instructions)
    debug_map = _debug_map(lowered)
    handles = record._debug_handle_map["forward"]
    assert {int(index) for index in handles} == {i for i, found in enumerate(method.debug_handles) if found}
    for index, step in enumerate(debug_map["instructions"]):
        if step["handles"]:
            single = len(step["handles"]) == 1 and index not in delegates
            assert handles[str(index)] == (step["handles"][0] if single else step["handles"])
    assert record._delegate_map == {
        "forward": {
            str(delegate["instructions"][0]): {"name": "MPSBackend", "delegate_map": delegate["map"]}
            for delegate in debug_map["delegates"]
        }
    }
    assert record._instruction_id_to_num_outs_map == {
        "forward": {str(index): debug_map["instructions"][index]["outputs"] for index in delegates}
    }


def test_the_peer_writes_the_same_entries(tmp_path: Path) -> None:
    """Of the entries of the peer's ETRecord, ours lacks the program before conversion and its graph's id."""
    exported = export(Inner().eval(), (INPUT,))
    peer = to_edge_transform_and_lower(exported, generate_etrecord=True).to_executorch()
    peer.get_etrecord().save(str(tmp_path / "peer.etrecord"))
    with zipfile.ZipFile(tmp_path / "peer.etrecord") as archive:
        entries = set(archive.namelist())
    with zipfile.ZipFile(_written(_lowered("portable"), tmp_path)) as archive:
        ours = set(archive.namelist())
    assert ours - entries == {"representative_inputs"}
    assert {name for name in entries - ours if not name.startswith("exported_program")} == {"export_graph_id"}


def test_two_methods(tmp_path: Path) -> None:
    lowered = lower(
        {"forward": _exported(), "halve": export(torch.nn.Softplus(), (INPUT,))}, "mps", keep_record=True
    )
    record = parse_etrecord(_written(lowered, tmp_path))
    assert set(record.edge_dialect_program) == {"forward", "halve"}
    got = record.edge_dialect_program["halve"].module()(INPUT)
    torch.testing.assert_close(got, torch.nn.functional.softplus(INPUT))
    assert set(record._debug_handle_map) == set(record._delegate_map) == {"forward", "halve"}


class Branches(torch.nn.Module):
    """A branch inside of a loop, with weights that only bodies read, and one that all do."""

    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Linear(8, 8)
        self.right = torch.nn.Linear(8, 8)
        self.scale = torch.nn.Parameter(torch.full((8,), 0.5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(carry: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            (value,) = torch.cond(
                row.sum() > 0,
                lambda r: (self.left(r) * self.scale,),
                lambda r: (torch.sin(self.right(r)),),
                (row,),
            )
            return carry + value, carry * self.scale

        total, rows = torch._higher_order_ops.scan(step, torch.zeros(8), x)
        return total * self.scale, rows


def test_control_flow(tmp_path: Path) -> None:
    """Bodies have the handles of their nodes, and constants that nothing else reads."""
    torch.manual_seed(0)
    model = Branches().eval()
    lowered = lower({"forward": export(model, (INPUT,))}, keep_record=True)
    program = parse_etrecord(_written(lowered, tmp_path)).edge_dialect_program
    expected, got = model(INPUT), program.module()(INPUT)
    assert expected[0].abs().max() > 0.1 and expected[1].abs().max() > 0.1
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    assert len(graphs) == 4  # the method, the loop, and two branches
    found = {
        node.meta["debug_handle"]: str(node.target)
        for graph in graphs
        for node in graph.nodes
        if "debug_handle" in node.meta and "getitem" not in str(node.target)
    }
    handles = _debug_map(lowered)["handles"]
    assert any("sin" in operator for operator in found.values())
    for handle, entry in handles.items():
        if set(entry["operators"]) != {"getitem"}:
            assert found[int(handle)] in entry["operators"] or "higher_order" in found[int(handle)]


def test_the_inspector_shows_our_nodes(tmp_path: Path) -> None:
    """A made-up run: each instruction once, and each instruction of each delegate."""
    lowered = _lowered("mps")
    (method,) = lowered.emitted.methods
    debug_map = _debug_map(lowered)
    events = []
    for index, step in enumerate(method.instructions):
        is_delegate = isinstance(step, DelegateCall)
        events.append(timed("DELEGATE_CALL" if is_delegate else "OPERATOR_CALL", index))
        if isinstance(step, DelegateCall):
            own = method.delegates[step.delegate].debug_handle_map
            events += [timed(f"mps_{number}", index, number) for number in own]
    inspector = Inspector(
        etdump_data=etdump(events),
        etrecord=_written(lowered, tmp_path),
        source_time_scale=TimeScale.NS,
        target_time_scale=TimeScale.US,
    )
    (block,) = inspector.event_blocks
    seen = 0
    for event in block.events:
        index = event._instruction_id
        step = debug_map["instructions"][index]
        delegate = next((d for d in debug_map["delegates"] if index in d["instructions"]), None)
        if event.delegate_debug_identifier is not None:
            assert delegate is not None and event.delegate_backend_name == "MPSBackend"
            expected = delegate["map"][str(event.delegate_debug_identifier)]
        else:
            expected = step["handles"]
        handles = event.debug_handles if isinstance(event.debug_handles, list) else [event.debug_handles]
        assert [handle for handle in handles if handle is not None] == expected
        operators = [
            operator.removeprefix("aten.")
            for handle in expected
            for operator in debug_map["handles"][str(handle)]["operators"]
            if operator != "getitem"
        ]
        assert sorted(name.replace("_copy.", ".") for name in event.op_types) == sorted(operators)
        assert not operators or event.module_hierarchy
        seen += bool(operators)
    assert seen > len(method.instructions)
    assert inspector.to_dataframe()["avg (us)"].dropna().eq(1.0).any()
    lines = {line for event in block.events for line in event.stack_traces.values()}
    assert any("running = torch.cumsum(first, 1) * second" in line for line in lines)


def test_the_inspector_finds_the_operator_that_is_wrong(tmp_path: Path) -> None:
    """The tool's own search for numeric gaps, on a run whose `exp` is off by a tenth."""
    lowered = _lowered("portable")
    path = _written(lowered, tmp_path)
    program = parse_etrecord(path).edge_dialect_program.module()
    values: dict[int, torch.Tensor] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if "debug_handle" in n.meta and isinstance(result, torch.Tensor):
                values[n.meta["debug_handle"]] = result.clone()
            return result

    Recorder(program).run(INPUT)
    (method,) = lowered.emitted.methods
    buffer, events, last = bytearray(), [], {}
    for index, handles in enumerate(method.debug_handles):
        if len(handles) == 1:
            last[handles[0]] = index
    wrong = next(h for h, entry in _debug_map(lowered)["handles"].items() if entry["node"] == "exp")
    for handle, index in sorted(last.items(), key=lambda item: item[1]):
        value = values[handle]
        if value.dtype == torch.float32:
            events += [timed("native_call", index)]
            events += [logged(index, value + 0.1 * (handle == int(wrong)), buffer)]
    (tmp_path / "debug.bin").write_bytes(bytes(buffer))
    inspector = Inspector(
        etdump_data=etdump(events), etrecord=path, debug_buffer_path=str(tmp_path / "debug.bin")
    )
    gaps = inspector.calculate_numeric_gap("L1")
    by_operator = {
        name: sum(gap) for names, gap in zip(gaps["aot_ops"], gaps["gap"], strict=True) for name in names
    }
    assert len(by_operator) >= 5
    (off,) = (name for name, gap in by_operator.items() if gap > 1e-4)
    assert off.startswith("exp")


def test_unsupported_programs_are_rejected_with_a_reason() -> None:
    class Unsigned(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(torch.uint32).view(torch.int32)

    with pytest.raises(DelegatecError) as caught:
        lower({"forward": export(Unsigned(), (torch.ones(2, dtype=torch.int32),))}, keep_record=True)
    assert {d.code for d in caught.value.diagnostics} == {"DC422"}
    assert "uint32" in str(caught.value)


def test_bytes_depend_on_the_program_only() -> None:
    files = []
    for _ in range(2):
        file = io.BytesIO()
        lowered = _lowered("mps")
        write_etrecord(lowered.records, lowered.emitted, file)
        files.append(file.getvalue())
    assert files[0] == files[1]


def test_tables_are_the_differences_of_the_schemas() -> None:
    peer_major, peer_minor = peer_schema.SCHEMA_VERSION
    assert {"major": peer_major, "minor": peer_minor} == SCHEMA_VERSION
    compared = 0
    for name, theirs in vars(peer_schema).items():
        ours = getattr(schema, name, None)
        # The program itself is written by hand, and delegates are not in it.
        if not dataclasses.is_dataclass(theirs) or ours is None or name == "ExportedProgram":
            continue
        peer_fields = {field.name for field in dataclasses.fields(theirs)}
        fields = {field.name for field in dataclasses.fields(ours)}
        added = ADDED_KINDS if issubclass(ours, _Union) else ADDED_FIELDS.get(name, frozenset())
        assert fields - added == peer_fields, name
        compared += 1
    assert compared > 25
    assert dict(peer_schema.ScalarType.__members__) == {
        **{dtype.name: dtype.value for dtype in schema.ScalarType if dtype.value <= LAST_COMMON_DTYPE},
        **MOVED_DTYPES,
    }
    for name in ("Layout", "MemoryFormat"):
        theirs, ours = getattr(peer_schema, name), getattr(schema, name)
        assert {m.name: m.value for m in theirs} == {m.name: m.value for m in ours}
