# SPDX-License-Identifier: Apache-2.0
"""The container and the maps of ETRecords. `tests/peer` has the peer's tools open them."""

from __future__ import annotations

import io
import json
import logging
import zipfile

import pytest
import torch
from torch.export import export

from delegatec.delegation import PartitionRules
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.lowering import lower
from delegatec.report.etrecord import graph_record, write_etrecord


class Model(torch.nn.Module):
    """A parameter, a buffer outside of checkpoints, and an operator that MPS does not support."""

    ramp: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("ramp", torch.arange(4.0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(self.linear(x) + self.ramp, 0)


def _archive(backend: str = "mps") -> zipfile.ZipFile:
    lowered = lower(
        {"forward": export(Model().eval(), (torch.rand(2, 4),))},
        backend,
        rules=PartitionRules(block_operators=("aten.cumsum",) if backend != "portable" else ()),
        keep_record=True,
    )
    file = io.BytesIO()
    write_etrecord(lowered.records, lowered.emitted, file)
    return zipfile.ZipFile(file)


def test_entries() -> None:
    program = "edge_dialect_exported_program/forward"
    archive = _archive()
    assert archive.namelist() == [
        "ETRECORD_V0",
        program,
        f"{program}_state_dict",
        f"{program}_constants",
        f"{program}_example_inputs",
        "debug_handle_map",
        "delegate_map",
        "instruction_id_to_num_outs_map",
        "representative_inputs",
    ]
    assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert archive.testzip() is None


def test_control_flow_without_operands_is_written_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Choice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.cond(x.sum() > 0, lambda: torch.zeros(4), lambda: torch.ones(4), ())

    program = to_edge(export(Choice(), (torch.rand(4),)))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        graph_record(program)
    assert caplog.records == []


def test_weights_are_under_their_names() -> None:
    archive = _archive("portable")
    program = "edge_dialect_exported_program/forward"
    state = torch.load(io.BytesIO(archive.read(f"{program}_state_dict")), weights_only=True)
    constants = torch.load(io.BytesIO(archive.read(f"{program}_constants")), weights_only=True)
    assert "linear.bias" in state and "ramp" not in state
    assert torch.equal(constants["ramp"], torch.arange(4.0))


def test_maps() -> None:
    archive = _archive()
    handles, delegates, outputs = (
        json.loads(archive.read(name))["forward"]
        for name in ("debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map")
    )
    assert handles == {"0": [1, 2], "1": 3}
    assert delegates["0"]["name"] == "MPSBackend"
    assert {handle for found in delegates["0"]["delegate_map"].values() for handle in found} == {1, 2}
    assert outputs == {"0": 1}


def test_nothing_is_recorded_unasked() -> None:
    assert lower({"forward": export(Model().eval(), (torch.rand(2, 4),))}).records == {}


def test_no_weight_is_copied() -> None:
    exported = export(Model().eval(), (torch.rand(2, 4),))
    bias = exported.state_dict["linear.bias"]
    record = graph_record(to_edge(exported))
    assert record.state["linear.bias"].data_ptr() == bias.data_ptr()


def test_a_container_without_a_name_is_dc422() -> None:
    class Pair:
        def __init__(self, first: torch.Tensor) -> None:
            self.first = first

    torch.utils._pytree.register_pytree_node(Pair, lambda p: ([p.first], None), lambda items, _: Pair(*items))

    class Wraps(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Pair:
            return Pair(x + 1)

    program = to_edge(export(Wraps(), (torch.rand(2),)))
    with pytest.raises(DelegatecError) as caught:
        graph_record(program)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["DC422"]
