# SPDX-License-Identifier: Apache-2.0
"""Weights outside of programs: in the stock runtime, compared with its own serialization."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.exir.schema import ScalarType
from executorch.exir.tensor_layout import TensorLayout
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorConfig, FlatTensorSerializer
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError
from delegatec.edge.control_flow import calls
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model
from delegatec.lowering import lower
from delegatec.program import ProgramOptions, weights_of, write_flat_tensors, write_program
from delegatec.program.reader import parse_flat_tensors, parse_program
from delegatec.verify import Interpreter
from tests.oracle.oracle import OracleProgram


class _Block(torch.nn.Module):
    """Tied weights, a buffer that is written to, one that is not, weights that are folded, two methods."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.linear = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.factor = torch.nn.Parameter(torch.rand(16))
        self.register_buffer("state", torch.rand(1, 16))
        self.register_buffer("shift", torch.rand(16), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(self.embedding(ids)) * (self.factor * 2 + 1) + self.get_buffer("shift")
        self.get_buffer("state").add_(hidden.mean(1))
        return self.head(torch.tanh(hidden) + self.get_buffer("state"))

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.linear(self.embedding(ids)) + self.factor


IDS = torch.tensor([[3, 1, 4, 1, 5]])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "model.pt2"
    archive.save(export(Model(_Block(), (IDS,), methods={"embed": Method("embed", (IDS,))})), str(path))
    return path


def _data_file(methods: Mapping[str, ExportedProgram], alignment: int = 128) -> bytes:
    file = io.BytesIO()
    write_flat_tensors(weights_of(methods), file, alignment=alignment)
    return file.getvalue()


def _program(path: Path, **options: int) -> bytes:
    file = io.BytesIO()
    methods = archive.load(str(path)).methods
    lowered = lower(methods, external_weights=True, program_options=ProgramOptions(**options))
    write_program(lowered.emitted, file)
    return file.getvalue()


@pytest.mark.parametrize("alignment", [1, 128, 16384])
def test_the_runtime_finds_weights_in_a_separate_file(model: Path, alignment: int) -> None:
    methods = archive.load(str(model)).methods
    pte, ptd = _program(model, segment_alignment=alignment), _data_file(methods, alignment)
    # only constants folded from a weight
    assert [len(segment.data) for segment in parse_program(pte).segments] == [16 * 4]
    runtime = OracleProgram(pte, ptd)
    data = parse_flat_tensors(ptd).entries
    for name in ("forward", "embed"):
        interpreter = Interpreter(parse_program(pte).method(name), data=data)
        eager = export(Model(_eager(), (IDS,), methods={"embed": Method("embed", (IDS,))}))[name].module()
        for ids in (IDS, IDS.flip(1), IDS + 7):
            (expected,) = [eager(ids)]
            (actual,) = runtime.run([ids], name)
            torch.testing.assert_close(actual, expected, atol=2e-6, rtol=1e-5)
            torch.testing.assert_close(interpreter.run([ids])[0], actual, atol=2e-6, rtol=1e-5)


def _eager() -> torch.nn.Module:
    torch.manual_seed(0)
    return _Block().eval()


def test_files_work_as_buffers_do(model: Path, tmp_path: Path) -> None:
    pte, ptd = tmp_path / "model.pte", tmp_path / "model.ptd"
    pte.write_bytes(_program(model))
    ptd.write_bytes(_data_file(archive.load(str(model)).methods))
    (expected,) = [_eager().embed(IDS)]  # type: ignore[operator]
    torch.testing.assert_close(OracleProgram(pte, ptd).run([IDS], "embed")[0], expected, atol=2e-6, rtol=1e-5)


def test_names_are_those_of_the_model(model: Path) -> None:
    entries = parse_flat_tensors(_data_file(archive.load(str(model)).methods)).entries
    assert set(entries) == {*_eager().state_dict(), "shift"}
    assert entries["head.weight"].segment == entries["embedding.weight"].segment
    for name, tensor in _eager().state_dict().items():
        assert bytes(entries[name].data) == tensor.numpy().tobytes()


def test_another_checkpoint_is_another_data_file(model: Path) -> None:
    """Constants derived from weights are in the program; `embed` uses all weights unchanged."""
    weights = {name: value + 1 for name, value in weights_of(archive.load(str(model)).methods).items()}
    file = io.BytesIO()
    write_flat_tensors(weights, file)
    eager = _eager()
    eager.load_state_dict({name: weights[name] for name in eager.state_dict()})
    (actual,) = OracleProgram(_program(model), file.getvalue()).run([IDS], "embed")
    torch.testing.assert_close(actual, eager.embed(IDS), atol=2e-5, rtol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights.pop("linear.bias"),
        lambda weights: weights.update({"linear.bias": torch.zeros(15)}),
        lambda weights: weights.update({"linear.bias": torch.zeros(16, dtype=torch.int32)}),
    ],
)
def test_the_runtime_and_verification_reject_the_same_files(model: Path, change: object) -> None:
    weights = weights_of(archive.load(str(model)).methods)
    assert callable(change)
    change(weights)
    file = io.BytesIO()
    write_flat_tensors(weights, file)
    pte = _program(model)
    with pytest.raises(RuntimeError):
        OracleProgram(pte, file.getvalue()).run([IDS], "embed")
    with pytest.raises(DelegatecError, match=r"linear\.bias") as caught:
        Interpreter(parse_program(pte).method("embed"), data=parse_flat_tensors(file.getvalue()).entries)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["DC360"]


def test_the_peer_reads_ours_and_we_read_the_peers(model: Path) -> None:
    weights = weights_of(archive.load(str(model)).methods)
    ours = _data_file(archive.load(str(model)).methods)
    read = FlatTensorSerializer().deserialize(ours)  # type: ignore[arg-type]
    payload = DataPayload(buffers=[], named_data={})
    indices: dict[int, int] = {}
    for name, tensor in weights.items():
        if tensor.data_ptr() not in indices:
            indices[tensor.data_ptr()] = len(payload.buffers)
            payload.buffers.append(tensor.numpy().tobytes())
        layout = TensorLayout(ScalarType.FLOAT, list(tensor.shape), list(range(tensor.dim())))
        payload.named_data[name] = DataEntry(indices[tensor.data_ptr()], 1, layout)
    theirs = bytes(FlatTensorSerializer(FlatTensorConfig(128)).serialize(payload))
    assert read == payload
    mine, yours = parse_flat_tensors(ours).entries, parse_flat_tensors(theirs).entries
    assert list(mine) == list(yours)
    for name in mine:
        assert (mine[name].segment, mine[name].shape, bytes(mine[name].data)) == (
            yours[name].segment,
            yours[name].shape,
            bytes(yours[name].data),
        )
    assert OracleProgram(_program(model), theirs).run([IDS], "embed")[0].shape == (1, 5, 16)


class _Views(torch.nn.Module):
    """Weights inside another one's memory, and one that another module has a copy of."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.rand(96, 16)
        self.register_buffer("whole", whole)
        self.register_buffer("first", whole[:32])
        self.register_buffer("second", whole[32:64])
        self.register_buffer("copy", whole.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        linear = torch.nn.functional.linear
        parts = linear(x, self.get_buffer("first")) - linear(x, self.get_buffer("second"))
        wholes = linear(x, self.get_buffer("whole")) + linear(x, self.get_buffer("copy"))
        return torch.cat([parts, wholes], 1)

    def half(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.get_buffer("second"))


@pytest.mark.parametrize("backend", ["portable", "mps"])
def test_weights_in_memory_of_others_are_stored_once(tmp_path: Path, backend: str) -> None:
    torch.manual_seed(0)
    net, x = _Views().eval(), torch.rand(2, 16)
    path = str(tmp_path / "views.pt2")
    archive.save(export(Model(net, (x,), methods={"half": Method("half", (x,))})), path)
    file = io.BytesIO()
    lowered = lower(archive.load(path).methods, method_backends={"half": [backend]})
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    assert [len(s.data) for s in program.segments if s.use == "constants"] == [96 * 16 * 4]
    runtime = Interpreter(program.method("forward"))
    torch.testing.assert_close(runtime.run([x])[0], net(x), atol=2e-5, rtol=1e-5)
    if backend == "portable":
        actual = OracleProgram(file.getvalue())
        torch.testing.assert_close(actual.run([x])[0], net(x), atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(actual.run([x], "half")[0], net.half(x), atol=2e-5, rtol=1e-5)


def test_a_view_of_an_external_weight_is_a_copy(tmp_path: Path) -> None:
    """The runtime looks weights up by their shape, and products read those of convolutions flat."""
    torch.manual_seed(0)
    net, x = torch.nn.Conv2d(2, 3, 3), torch.rand(1, 2, 5, 5)
    path = str(tmp_path / "convolution.pt2")
    archive.save(export(Model(net, (x,))), path)
    file = io.BytesIO()
    write_program(lower(archive.load(path).methods, external_weights=True).emitted, file)
    assert not any(segment.data for segment in parse_program(file.getvalue()).segments)
    weights = {name: value * 2 for name, value in weights_of(archive.load(path).methods).items()}
    data = io.BytesIO()
    write_flat_tensors(weights, data)
    (actual,) = OracleProgram(file.getvalue(), data.getvalue()).run([x])
    torch.testing.assert_close(actual, net(x) * 2, atol=1e-6, rtol=1e-5)


def test_weights_of_a_loop_are_external() -> None:
    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.LSTM(8, 176, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.layer(x)[0]
            return result

    torch.manual_seed(0)
    net, x = First().eval(), torch.rand(1, 12, 8)
    lowered = lower(export(Model(net, (x,))), "xnnpack", external_weights=True)
    assert calls(lowered.programs["forward"])
    assert {"layer.weight_ih_l0", "layer.weight_hh_l0"} <= set(lowered.emitted.external)
    file, data = io.BytesIO(), io.BytesIO()
    write_program(lowered.emitted, file)
    assert len(file.getvalue()) < 30_000
    write_flat_tensors(weights_of(export(Model(net, (x,)))), data)
    (actual,) = OracleProgram(file.getvalue(), data.getvalue()).run([x])
    torch.testing.assert_close(actual, net(x), atol=1e-6, rtol=1e-5)


def test_a_weight_that_is_computed_is_in_the_program() -> None:
    """The data file, which depends on the model alone, has its parameters."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(150, 150)), torch.nn.Linear(150, 4)
    ).eval()
    x = torch.randn(2, 150)
    exported = {"forward": torch.export.export(module, (x,))}
    ptd, pte = _data_file(exported), io.BytesIO()
    write_program(lower(exported, external_weights=True).emitted, pte)
    entries = parse_flat_tensors(ptd).entries
    assert sorted(entries) == sorted(module.state_dict())
    assert 150 * 150 * 4 < len(pte.getvalue()) < 1.1 * 150 * 150 * 4 + 4096
    (actual,) = OracleProgram(pte.getvalue(), ptd).run([x])
    torch.testing.assert_close(actual, module(x), atol=1e-5, rtol=1e-5)
