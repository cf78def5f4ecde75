# SPDX-License-Identifier: Apache-2.0
"""The command that compares a program with eager mode: inputs, tolerances, the cause of a failure, JUnit."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from safetensors.torch import save_file
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive
from delegatec.frontend.samples_file import save_samples
from delegatec.samples.recorded import RecordedCall, RecordedSamples
from delegatec.verify import aten_kernels


class Net(torch.nn.Module):
    """Results of three dtypes."""

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x * 2).sigmoid().exp()
        return y, y.half(), ids + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    inputs = (torch.randn(3, 4), torch.arange(5))
    methods = {name: export(Net(), inputs) for name in ("forward", "other")}
    archive.save(methods, str(folder / "model.pt2"), {"get_width": 4})
    outputs = [f"--pte={folder}/a.pte", f"--manifest={folder}/a.json"]
    assert run_verb(["lower", f"--program={folder}/model.pt2", *outputs, "--segment-alignment=256"]) == 0
    return folder


def _verify(folder: Path, *arguments: str) -> int:
    files = [f"--program={folder}/model.pt2", f"--pte={folder}/a.pte", f"--manifest={folder}/a.json"]
    return run_verb(["verify", "--label=//models:a_test", *files, *arguments])


def _break(monkeypatch: pytest.MonkeyPatch) -> None:
    right = aten_kernels.find_aten
    wrong = {"aten::sigmoid.out": torch.ops.aten.tanh.out}
    found = "delegatec.verify.interpreter.find_aten"
    monkeypatch.setattr(found, lambda name: wrong.get(name) or right(name))


def _junit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = folder / "test.xml"
    path.unlink(missing_ok=True)
    monkeypatch.setenv("XML_OUTPUT_FILE", str(path))
    return path


def test_a_case_for_each_output_with_its_figures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xml = _junit(folder, monkeypatch)
    assert _verify(folder) == 0
    suite = ElementTree.parse(xml).getroot()[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("//models:a_test", "6", "0")
    names = [case.get("name") for case in suite]
    assert names[:3] == ["forward, output 0 [0]", "forward, output 1 [1]", "forward, output 2 [2]"]
    figures = [{each.get("name"): each.get("value") for each in case[0]} for case in suite]
    assert [each["tolerance"] for each in figures[:3]] == [
        "1e-05 + 1e-05 * |value|",
        "0.002 + 0.002 * |value|",
        "0 + 0 * |value|",
    ]
    assert all(float(each["max abs"] or "nan") < 1e-3 for each in figures)


def test_a_failure_names_the_first_value_that_departs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _break(monkeypatch)
    xml = _junit(folder, monkeypatch)
    assert _verify(folder) == 1
    captured = capsys.readouterr()
    assert "FAILED" in captured.out
    for method in ("forward", "other"):
        assert f"error DC510: the first value that departs in method '{method}', example, is" in captured.err
    assert "in forward: y = (x * 2).sigmoid().exp()" in captured.err and "node: sigmoid" in captured.err
    suite = ElementTree.parse(xml).getroot()[0]
    assert suite.get("failures") == "4"
    failure = suite[0].find("failure")
    assert failure is not None and failure.text is not None
    assert "DC502" in (failure.get("message") or "") and "DC510" in failure.text
    assert suite[2].find("failure") is None


def test_what_the_module_itself_returned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    xml = _junit(folder, monkeypatch)
    inputs = (torch.randn(3, 4), torch.arange(5))
    results = [("[0]", 0), ("[1]", 1), ("[2]", 2)]
    outputs = tuple((path, Net()(*inputs)[index]) for path, index in results)
    near = (*outputs[:2], ("[2]", outputs[2][1] + 1))
    path = folder / "a.samples.safetensors"
    save_samples(RecordedSamples((RecordedCall("other", "example", inputs, outputs),)), str(path))
    assert _verify(folder, f"--samples-file={path}") == 0
    assert "other    2 [2]   int64[5]       module            example" in capsys.readouterr().out
    names = [case.get("name") for case in ElementTree.parse(xml).getroot()[0]]
    assert names[6:] == [f"other, output {each} [{each}], against the module" for each in range(3)]

    # The samples of the model are found next to it, as its lines are.
    path = folder / "model.samples.safetensors"
    save_samples(RecordedSamples((RecordedCall("other", "example", inputs, near),)), str(path))
    try:
        assert _verify(folder) == 1
        assert "the module itself returned 2" in capsys.readouterr().err
        assert _verify(folder, "--minimum-snr-db=5") == 0  # ids up to 4, and 1 more
        assert _verify(folder, "--samples-file=") == 0
    finally:
        path.unlink()


def test_rules_that_match_nothing_on_the_way_to_a_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [f"--program={folder}/model.pt2", f"--pte={folder}/b.pte", f"--manifest={folder}/b.json"]
    rules = ["--block-operator=aten.sigmoid", "--block-operator=aten.exp", "--block-operator=aten.to"]
    assert run_verb(["lower", *files, "--backend=mps", *rules]) == 0
    _break(monkeypatch)
    assert run_verb(["verify", *files]) == 1
    captured = capsys.readouterr()
    assert "the first value that departs in method 'forward', example, is aten.sigmoid" in captured.err


def test_tolerances_by_dtype(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _break(monkeypatch)
    assert _verify(folder, "--tolerance=float32=9,9") == 1
    # DC508: zeros would pass, too
    assert _verify(folder, "--tolerance=float32=0.9,0.2", "--tolerance=float16=0.9,0.2", "--seeds=0") == 0
    assert _verify(folder, "--atol=0.9", "--rtol=0.2", "--seeds=0") == 0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--tolerance=float33=1", "unknown dtype 'float33'"),
        ("--tolerance=float32=nan", "expected a finite number"),
        ("--tolerance=float32=", "expected a finite number"),
        ("--source=x.py", "expected --entry as well"),
    ],
)
def test_wrong_arguments(
    folder: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    assert _verify(folder, argument) == 2
    assert message in capsys.readouterr().err


def test_inputs_from_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    xml = _junit(folder, monkeypatch)
    # far from zero, the wrong function differs by less than the tolerance: only these inputs show the fault
    samples = {"x": torch.full((2, 3, 4), 50.0), "ids": torch.arange(10).reshape(2, 5)}
    samples["x"][1] = 0.0
    save_file(samples, folder / "samples.safetensors")
    _break(monkeypatch)
    assert _verify(folder, f"--inputs={folder}/samples.safetensors", "--seeds=0") == 1
    assert "method 'forward', sample 1, output 0" in capsys.readouterr().err
    assert xml.exists()
    save_file({"x": torch.ones(3, 5)}, folder / "wrong.safetensors")
    assert _verify(folder, f"--inputs={folder}/wrong.safetensors") == 1
    error = capsys.readouterr().err
    assert 'DC132: test data wrong.safetensors, method forward: input "ids" is missing' in error


def test_inputs_from_a_function(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder / "given.py"
    source.write_text(
        "import torch\n"
        "def build():\n"
        "    return {'other': [{'x': torch.zeros(3, 4), 'ids': torch.zeros(5, dtype=torch.int64)}]}\n"
    )
    _break(monkeypatch)
    _verify(folder, "--entry=given:build", f"--source={source}", f"--import-path={folder}", "--seeds=0")
    error = capsys.readouterr().err
    assert "method 'other', sample 0" in error and "method 'forward', sample 0" not in error


def test_a_program_that_cannot_run_is_a_failed_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xml = _junit(folder, monkeypatch)
    other = folder / "other.pt2"
    archive.save({"encode": export(torch.nn.ReLU(), (torch.ones(2),))}, str(other))
    assert run_verb(["verify", f"--program={other}", f"--pte={folder}/a.pte"]) == 1
    (case,) = ElementTree.parse(xml).getroot()[0]
    failure = case.find("failure")
    assert failure is not None and "DC507" in (failure.get("message") or "")
