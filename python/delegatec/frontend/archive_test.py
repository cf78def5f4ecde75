# SPDX-License-Identifier: Apache-2.0
"""Archives: saved models are loaded, mapped, without duplicates, also by torch."""

from __future__ import annotations

import sys
import types
import zipfile
from pathlib import Path

import pytest
import torch
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 8)
        self.head = torch.nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("table", torch.arange(8.0), persistent=False)
        self.none = torch.nn.Parameter(torch.empty(0, 3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.encode(ids)) + self.count

    def encode(self, ids: torch.Tensor) -> torch.Tensor:
        return self.embedding(ids) * self.table + torch.tensor([0.5])


IDS = torch.tensor([[1, 2, 3]])


def tied_model() -> Model:
    return Model(Tied(), (IDS,), methods={"encode": Method("encode", (IDS,))})


def run(program: ExportedProgram, *inputs: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = program.module()(*inputs)
    return result


def test_methods_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "tied.pt2")
    model = tied_model()
    archive.save(export(model), path)
    methods = archive.load(path).methods
    assert list(methods) == ["forward", "encode"]
    assert torch.equal(run(methods["forward"], IDS), model.module(IDS))
    assert torch.equal(run(methods["encode"], IDS), model.module.encode(IDS))
    example = methods["encode"].example_inputs
    assert example is not None
    assert torch.equal(example[0][0], IDS)


def test_torch_reads_a_single_method(tmp_path: Path) -> None:
    path = str(tmp_path / "one.pt2")
    module = Tied()
    archive.save(export(Model(module, (IDS,))), path)
    assert torch.equal(run(torch.export.load(path), IDS), module(IDS))


def test_shared_weights_are_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "tied.pt2"
    archive.save(export(tied_model()), str(path))
    with zipfile.ZipFile(path) as members:
        sizes = [info.file_size for info in members.infolist() if "/weights/weight_" in info.filename]
    # the embedding that is also the head, the counter, and, in each method, the parameter without elements
    assert sorted(sizes) == [0, 0, 8, 10 * 8 * 4]
    program = archive.load(str(path)).methods["forward"]
    assert (
        program.state_dict["head.weight"].data_ptr() == program.state_dict["embedding.weight"].data_ptr() != 0
    )


class Conjugated(torch.nn.Module):
    """Buffers with torch's flags for lazy conjugation and negation."""

    turn: torch.Tensor
    angle: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        turn = torch.polar(torch.ones(3), torch.arange(3.0)).conj()
        self.register_buffer("turn", turn)
        self.register_buffer("angle", turn.imag)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(x * self.turn + self.angle)


def test_conjugated_and_negated_buffers_keep_their_values(tmp_path: Path) -> None:
    path, module, x = str(tmp_path / "conjugated.pt2"), Conjugated(), torch.ones(3)
    assert module.turn.is_conj() and module.angle.is_neg()
    expected = module(x)
    archive.save(export(Model(module, (x,))), path)
    torch.testing.assert_close(run(archive.load(path).methods["forward"], x), expected)


def test_weights_are_mapped_from_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "wide.pt2")
    archive.save(export(Model(torch.nn.Linear(512, 512), (torch.ones(1, 512),))), path)
    program = archive.load(path).methods["forward"]
    address = program.state_dict["weight"].data_ptr()
    assert address % 64 == 0
    with open("/proc/self/maps", encoding="utf-8") as maps:
        (owner,) = (
            line
            for line in maps
            if int(line.split("-")[0], 16) <= address < int(line.split()[0].split("-")[1], 16)
        )
    assert owner.split()[-1] == path
    assert owner.split()[1].startswith("r-")


def test_saving_a_loaded_model_has_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pt2", tmp_path / "second.pt2"
    archive.save(export(tied_model()), str(first))
    archive.save(archive.load(str(first)).methods, str(second))
    assert first.read_bytes() == second.read_bytes()


def test_dynamic_shapes_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "dynamic.pt2")
    batch = torch.export.Dim("batch", min=1, max=16)
    model = Model(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=({0: batch},))
    before = export(model)["forward"]
    archive.save({"forward": before}, path)
    after = archive.load(path).methods["forward"]
    assert {str(s): (r.lower, r.upper) for s, r in after.range_constraints.items()} == {
        str(s): (r.lower, r.upper) for s, r in before.range_constraints.items()
    }
    assert run(after, torch.ones(7, 4)).shape == (7, 2)
    (node,) = (node for node in after.graph.nodes if node.target is torch.ops.aten.linear.default)
    assert "torch.SymInt" in str(type(node.meta["val"].shape[0]))


@pytest.mark.parametrize("kept", [0, 10, 1000, -1])
def test_truncated_file_is_one_diagnostic(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "cut.pt2"
    archive.save(export(Model(torch.nn.Linear(4, 2), (torch.ones(1, 4),))), str(path))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DelegatecError) as caught:
        archive.load(str(path))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "DC120"
    assert "cut.pt2" in diagnostic.message


def test_pickled_weights_are_rejected(tmp_path: Path) -> None:
    path, other = tmp_path / "a.pt2", tmp_path / "b.pt2"
    archive.save(export(Model(torch.nn.Linear(4, 2), (torch.ones(1, 4),))), str(path))
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            target.writestr(info.filename, content.replace(b'"use_pickle":false', b'"use_pickle":true'))
    with pytest.raises(DelegatecError, match="pickled"):
        archive.load(str(other))


def test_failing_save_removes_the_file(tmp_path: Path) -> None:
    program = export(Model(torch.nn.Linear(4, 2), (torch.ones(1, 4),)))["forward"]
    program.state_dict["weight"] = "no tensor"  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        archive.save({"forward": program}, str(tmp_path / "a.pt2"))
    assert list(tmp_path.iterdir()) == []


class Tagged(torch.Tensor):
    """A tensor that torch pickles."""


@pytest.mark.parametrize(
    ("trusted", "message"), [(False, "weight is a pickled object"), (True, "no_such_module")]
)
def test_weights_of_a_class_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, message: str
) -> None:
    """torch.export.save pickles them: their class must be known where they are read."""
    module = types.ModuleType("no_such_module")
    module.Tagged = Tagged  # type: ignore[attr-defined]
    monkeypatch.setattr(Tagged, "__module__", "no_such_module")
    layer = torch.nn.Linear(3, 2)
    exported = torch.export.export(layer, (torch.ones(1, 3),))
    exported.state_dict["weight"] = torch.nn.Parameter(
        torch.ones(2, 3).as_subclass(Tagged), requires_grad=False
    )
    path = str(tmp_path / "net.pt2")
    with monkeypatch.context() as known:
        known.setitem(sys.modules, "no_such_module", module)
        torch.export.save(exported, path)
    with pytest.raises(DelegatecError, match=message) as caught:
        archive.load(path, trusted=trusted)
    assert [each.code for each in caught.value.diagnostics] == ["DC120"]
