# SPDX-License-Identifier: Apache-2.0
"""The metric of two programs over five samples, by hand; limits, tables, runtimes, and datasets in Python."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from safetensors.torch import save_file
from torch.export import Dim, export

from delegatec.cli.main import run_verb
from delegatec.frontend import archive

# The program adds 0.5 to the second logit, the baseline nothing: samples 1 and 4 are wrong, and 3 is right.
_ROWS = torch.tensor([[1, 0], [0.3, 0], [0, 1], [0.2, 0], [0.1, 0]])
_LABELS = torch.tensor([0, 0, 1, 1, 0])
_METRICS = """
import torch

def top1(outputs, label):
    return outputs.argmax() == label

def mean_of_all(outputs, labels):
    assert isinstance(outputs, list) and isinstance(labels, list)
    return sum(float(output.argmax() == label) for output, label in zip(outputs, labels)) / 10

def of_sum(outputs, label):
    logits, total = outputs
    return total - label

def negative(outputs, label):
    return -1.25

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return torch.tensor([[1.0, 0], [0.3, 0]])[index % 2], 0
ROWS = Rows()
PAIRS = [((torch.tensor([1.0, 2.0]),), 3.0)]
def batch(): return torch.utils.data.DataLoader(ROWS, batch_size=None)

class Twice:
    name, backends = "twice 1.0", ()
    def load(self, pte, ptd, shares_state):
        return self
    def run(self, method, inputs):
        return [2 * inputs[0] + torch.tensor([0.0, 1.0])]

RUNTIME = Twice()
"""


class _Net(torch.nn.Module):
    def __init__(self, more: float, has_sum: bool = False) -> None:
        super().__init__()
        self.more, self.has_sum = torch.nn.Buffer(torch.tensor([0.0, more])), has_sum

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        y = x + self.more
        return (y, y.sum()) if self.has_sum else y


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    nets = {"program": _Net(0.5), "baseline": _Net(0.0), "sums": _Net(0.0, has_sum=True)}
    models = {name: export(net, (torch.zeros(2),)) for name, net in nets.items()}
    size = Dim("size", min=2, max=4)
    models["dynamic"] = export(torch.nn.ReLU(), (torch.zeros(3, 2),), dynamic_shapes=({0: size},))
    for name, model in models.items():
        archive.save({"forward": model}, str(folder / f"{name}.pt2"), {})
        assert run_verb(["lower", f"--program={folder}/{name}.pt2", f"--pte={folder}/{name}.pte"]) == 0
    save_file({"0": _ROWS, "labels": _LABELS}, folder / "rows.safetensors")
    (folder / "digit_metrics.py").write_text(_METRICS)
    return folder


@pytest.fixture(autouse=True)
def _modules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(folder)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) == str(folder / f"{name}.py"):
            del sys.modules[name]


def _run(*arguments: str, pte: str = "program", metric: str = "top1", dataset: str = "") -> int:
    samples = f"--dataset-entry={dataset}" if dataset else "--dataset=rows.safetensors"
    files = [f"--pte={pte}.pte", f"--metric=digit_metrics:{metric}", samples, "--import-path=."]
    return run_verb(["accuracy", "--label=//models:a_test", *files, *arguments])


def test_a_table_beside_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--floor=0.6", "--baseline=baseline.pte", "--maximum-loss=0.2") == 0
    assert capsys.readouterr().out == (
        "method forward: digit_metrics:top1 over 5 samples, executor: reference\n"
        "  program   0.6000  at least 0.6000\n"
        "  baseline  0.8000\n"
        "  loss      0.2000  at most 0.2000\n"
        "samples worse than with the baseline: 2 of 5; better: 1\n"
        "  sample  label  program  baseline\n"
        "  1       0      0        1\n"
        "  4       0      0        1\n"
        "  3       1      1        0\n"
    )


def test_both_limits_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XML_OUTPUT_FILE", str(folder / "test.xml"))
    assert _run("--floor=0.61", "--baseline=baseline.pte", "--maximum-loss=0.19") == 1
    assert capsys.readouterr().err == (
        "//models:a_test: error DC520: digit_metrics:top1 is 0.6 over 5 samples\n  expected: at least 0.61\n"
        "//models:a_test: error DC520: digit_metrics:top1 is 0.6, and 0.8 of the baseline: 0.2 less\n"
        "  expected: at most 0.19 less\n"
    )
    suite = ElementTree.parse(folder / "test.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    figures = {each.get("name"): each.get("value") for each in suite[1][0]}
    assert figures == {"value": "0.2", "maximum": "0.19", "baseline": "0.8", "differing samples": "3"}


def test_json_has_the_samples_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--baseline=baseline.pte", "--format=json", "--maximum-loss=0.1") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["value"], found["baseline"], found["loss"]) == (0.6, 0.8, 0.2)
    assert found["limits"] == {"floor": None, "maximum_loss": 0.1}
    assert found["differences"][0] == {"sample": 1, "label": "0", "program": 0.0, "baseline": 1.0}


def test_a_metric_of_all_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--metric-over=dataset", "--floor=0.3", "--baseline=baseline.pte", metric="mean_of_all") == 0
    assert capsys.readouterr().out.endswith(
        "  program   0.3000  at least 0.3000\n  baseline  0.4000\n  loss      0.1000\n"
    )


def test_a_better_program_has_a_negative_loss(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--baseline=program.pte", "--maximum-loss=0", pte="baseline") == 0
    assert "loss      -0.2000" in capsys.readouterr().out


def test_a_metric_may_be_negative() -> None:
    assert _run("--floor=-1.25", metric="negative") == 0
    assert _run("--floor=-1.2", metric="negative") == 1


def test_the_program_runs_in_a_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--runtime=digit_metrics:RUNTIME", "--baseline=baseline.pte") == 0
    out = capsys.readouterr().out
    # 2 x + 1 on the second logit is the arithmetic of the program, in both.
    assert "executor: twice 1.0" in out and "program   0.6000" in out and "baseline  0.6000" in out


@pytest.mark.parametrize("dataset", ["batch", "ROWS"])
def test_datasets_of_torch(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(dataset=f"digit_metrics:{dataset}") == 0
    assert "2 samples, executor: reference\n  program  0.5000\n" in capsys.readouterr().out


def test_several_outputs_are_a_tuple(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(pte="sums", metric="of_sum", dataset="digit_metrics:PAIRS") == 0
    assert "program  0.0000" in capsys.readouterr().out


def test_the_table_has_ten_samples_and_json_has_all(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({"0": _ROWS[1].repeat(12, 1), "labels": torch.zeros(12)}, folder / "many.safetensors")
    files = ["--pte=program.pte", "--baseline=baseline.pte", "--dataset=many.safetensors"]
    command = ["accuracy", *files, "--metric=digit_metrics:top1", "--import-path=."]
    assert run_verb(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4] == "samples worse than with the baseline: 12 of 12; better: 0"
    assert [line.split()[0] for line in lines[6:]] == [*map(str, range(10)), "..."]
    assert run_verb([*command, "--format=json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["differences"]) == 12


def test_external_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("program", "baseline"):
        model = f"--program={name}.pt2"
        assert run_verb(["lower", model, f"--pte={name}_external.pte", "--external-weights"]) == 0
        assert run_verb(["weights", model, f"--ptd={name}.ptd"]) == 0
    weights = ["--ptd=program.ptd", "--baseline-ptd=baseline.ptd"]
    assert _run("--baseline=baseline_external.pte", *weights, pte="program_external") == 0
    out = capsys.readouterr().out
    assert "program   0.6000" in out and "baseline  0.8000" in out
    assert _run("--baseline=baseline_external.pte", weights[0], pte="program_external") == 1
    assert "error DC360" in capsys.readouterr().err


_MISTAKES = {
    "a dataset without labels": (
        {"0": _ROWS},
        "DC521: dataset bad.safetensors: it has the tensors 0",
    ),
    "another number of labels": (
        {"0": _ROWS, "labels": _LABELS[:3]},
        'tensors have different numbers of samples: "0" has 5, "labels" has 3',
    ),
    "a label of all samples": (
        {"0": _ROWS, "labels": torch.tensor(3)},
        'DC521: dataset bad.safetensors: tensor "labels" has no dimension of samples',
    ),
    "no samples": ({"0": _ROWS[:0], "labels": _LABELS[:0]}, "DC521: the dataset has no samples"),
    "another dtype": (
        {"0": _ROWS.double(), "labels": _LABELS},
        "DC504: the program, sample 0: input 0 is float64[2]\n  expected: float32[2]",
    ),
    "another shape": (
        {"0": _ROWS.reshape(5, 1, 2), "labels": _LABELS},
        "DC504: the program, sample 0: input 0 is float32[1, 2]\n  expected: float32[2]",
    ),
    "another number of inputs": (
        {"0": _ROWS, "1": _ROWS + 1, "labels": _LABELS},
        "DC504: the program, sample 0: 2 inputs, and method 'forward' takes 1",
    ),
}


@pytest.mark.parametrize("name", _MISTAKES)
@pytest.mark.parametrize("runtime", [False, True])
def test_mistakes_in_files(
    name: str, runtime: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors, message = _MISTAKES[name]
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "bad.safetensors")
    more = ["--runtime=digit_metrics:RUNTIME"] * runtime
    files = ["--pte=program.pte", "--metric=digit_metrics:top1", "--dataset=bad.safetensors"]
    assert run_verb(["accuracy", "--import-path=.", *files, *more]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("error DC") == 1 and "Traceback" not in error


def test_sizes_within_bounds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "sizes.py").write_text(
        "import torch\n"
        "def sizes():\n    yield from ((torch.ones(size, 2), 2 * size) for size in (2, 4))\n"
        "def many():\n    yield torch.ones(5, 2), 0\n"
        "def is_sum(outputs, label): return float(outputs.sum()) == label\n"
    )
    arguments = ["accuracy", "--import-path=.", "--pte=dynamic.pte", "--metric=sizes:is_sum", "--floor=1"]
    assert run_verb([*arguments, "--dataset-entry=sizes:sizes"]) == 0
    assert run_verb([*arguments, "--dataset-entry=sizes:many"]) == 1
    assert "input 0 is float32[5, 2]\n  expected: float32[<=4, <=2]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("METRIC = 3", "metric 'bad:METRIC' is a int"),
        ("def METRIC(outputs, label): return None", "returns None for the program, sample 0"),
        ("def METRIC(outputs, label): return outputs", "returns a Tensor of [2] for the program, sample 0"),
        ("def METRIC(outputs, label): return float('nan')", "returns nan for the program, sample 0"),
        ("def METRIC(outputs, label): return outputs[7]", "the program, sample 0, raises IndexError"),
        ("def METRIC(outputs): return 0", "the program, sample 0, raises TypeError"),
        ("class METRIC: pass", "'METRIC' is a class, not an instance"),
        ("METRIK = 3", "did you mean 'METRIK'?"),
        ("import no_such_module", "no module named 'no_such_module'"),
        ("import torch\nDATA = 3\ndef METRIC(*_): return 0", "dataset 'bad:DATA' is a int"),
        ("DATA = [3]\ndef METRIC(*_): return 0", "dataset 'bad:DATA', sample 0, is a int"),
        ("DATA = [(1, 2, 3)]\ndef METRIC(*_): return 0", "sample 0, is a tuple of int, 3 items"),
        ("def DATA(): yield 1 / 0\ndef METRIC(*_): return 0", "sample 0, raises ZeroDivisionError"),
        ("def DATA(x): pass\ndef METRIC(*_): return 0", "dataset 'bad:DATA' raises TypeError"),
    ],
)
def test_mistakes_in_python(
    code: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.py").write_text(code + "\n")
    dataset = "--dataset-entry=bad:DATA" if "DATA" in code else "--dataset=rows.safetensors"
    arguments = ["--pte=program.pte", "--metric=bad:METRIC", dataset, "--import-path=."]
    assert run_verb(["accuracy", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("error DC521") == 1 and "Traceback" not in error
    if "1 / 0" in code:
        assert "at bad.py:1 in DATA" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--maximum-loss=0.1"], "--maximum-loss has no effect without --baseline"),
        (["--baseline-ptd=a.ptd"], "--baseline-ptd has no effect without --baseline"),
        (["--baseline=baseline.pte", "--maximum-loss=-1"], "-1: expected a number of at least 0"),
        (["--floor=nan"], "nan: expected a finite number"),
        (["--method=other"], "--method other: the program has forward"),
        (["--dataset-entry=a:b"], "not allowed with argument --dataset"),
    ],
)
def test_command_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(*flags) == 2
    assert message in capsys.readouterr().err
