# SPDX-License-Identifier: Apache-2.0
"""The sentences on several kinds of programs, lowered for real backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import export

from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.report import Manifest, build_manifest, render_html
from delegatec.report.explanation import Explanation, explanations_of, format_explanations
from delegatec.report.manifest import from_json, to_json
from delegatec.report.methods import Location, MethodInfo, NotDelegated, NoteInfo
from delegatec.report.reasons import format_reasons
from delegatec.samples.search import FloatLayer, Search, SearchPoint

X = torch.linspace(-1, 1, 48).reshape(3, 16)
LINEAR = torch.nn.Linear(16, 8).eval()


class Function(torch.nn.Module):
    """A function, between layers or not."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer = LINEAR
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.function(self.layer, x)
        assert isinstance(result, torch.Tensor)
        return result


def _manifest(
    folder: Path, function: Any, backend: str, options: Mapping[str, Any] | None = None
) -> Manifest:
    model = function if isinstance(function, torch.nn.Module) else Function(function)
    lowered = lower({"forward": export(model, (X,))}, backend, options)
    with open(folder / "program.pte", "wb") as file:
        write_program(lowered.emitted, file)
    return build_manifest(lowered, folder / "program.pte", label="//models:foo")


def _only(manifest: Manifest) -> Explanation:
    (found,) = explanations_of(from_json(to_json(manifest)))
    return found


def test_all_delegated(tmp_path: Path) -> None:
    manifest = _manifest(tmp_path, lambda layer, x: layer(x).relu(), "mps")
    # 3 rows of 8 sums of 16 products
    work = "with all 384 multiplications of layers and products"
    expected = f"All 2 operators, {work}, run in 1 delegate of MPSBackend."
    assert _only(manifest) == Explanation("forward", expected, "", (), ())
    assert format_explanations(manifest) == f"//models:foo, method forward\n  {expected}\n"


def test_one_operator_between_layers(tmp_path: Path) -> None:
    def function(layer: torch.nn.Module, x: torch.Tensor) -> Any:
        y = layer(x)
        y = y.topk(3, 0).values
        return layer(torch.cat([y, y], 1))

    found = _only(manifest := _manifest(tmp_path, function, "xnnpack"))
    assert found.delegated.startswith(
        "3 of 4 operators, with all 768 multiplications of layers and products, "
    )
    assert found.delegated.endswith(" run in 2 delegates of XnnpackBackend.")
    assert (
        found.left
        == "One runs on the kernels of ExecuTorch's runtime and splits the method into 2 delegates:"
    )
    (reason,) = found.reasons
    assert reason.text.startswith("1 aten.topk.default, refused by XnnpackBackend: ")
    assert reason.location is not None and reason.location.text.startswith("result = ") and reason.others == 0
    assert found.advice and "aten.topk.default" in found.advice[0]
    line = reason.location.line
    assert f"\n      at {reason.location.file}:{line}: result = " in format_explanations(manifest)
    page = render_html(manifest)
    first_screen = page[: page.index('<div class="cards">')]
    assert all(text in first_screen for text in (reason.text, f":{line}</code>", "To do: "))


def test_a_rest_without_layers_is_to_be_measured_first(tmp_path: Path) -> None:
    found = _only(_manifest(tmp_path, lambda layer, x: layer(x).topk(2, 0).values, "xnnpack"))
    assert found.left == "One runs on the kernels of ExecuTorch's runtime:" and len(found.reasons) == 1
    (advice,) = found.advice
    assert advice.startswith("Measure with NAME.profile before you change anything")


def test_a_layer_outside_of_delegates_has_its_share(tmp_path: Path) -> None:
    def function(layer: torch.nn.Module, x: torch.Tensor) -> Any:
        return layer(x).double().matmul(x[:, :8].double().t()).float()

    manifest = _manifest(tmp_path, function, "mps")
    (method,) = manifest.methods
    assert (method.multiplications_delegated, method.multiplications) == (384, 384 + 3 * 3 * 8)
    found = _only(manifest)
    assert "with 84.2 % of 456 multiplications" in found.delegated
    assert not found.advice[0].startswith("Measure")


def test_nothing_delegated(tmp_path: Path) -> None:
    found = _only(_manifest(tmp_path, lambda layer, x: x.topk(2, 0).values.topk(2, 1).values, "xnnpack"))
    assert found.delegated == "None of 2 operators was delegated, by xnnpack."
    assert found.left == "All 2 run on the kernels of ExecuTorch's runtime:"
    assert [reason.text.partition(",")[0] for reason in found.reasons] == ["2 aten.topk.default"]
    assert found.advice[0].startswith("No option of the backend takes aten.topk.default: ")


def test_no_backend(tmp_path: Path) -> None:
    found = _only(_manifest(tmp_path, lambda layer, x: layer(x).relu(), "portable"))
    assert found.delegated.startswith("No backend was requested: ") and not found.left and not found.reasons
    assert found.advice == (
        'Lower the model for a backend as well, such as delegate_programs(backends = ["xnnpack"]).',
    )


class Sizes(torch.nn.Module):
    """Computes nothing."""

    def forward(self, x: torch.Tensor) -> tuple[int, int]:
        return x.shape[0], x.shape[1]


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_no_operators(tmp_path: Path, backend: str) -> None:
    manifest = _manifest(tmp_path, Sizes(), backend)
    expected = "No operators: all that the method returns is constant."
    assert _only(manifest) == Explanation("forward", expected, "", (), ())
    assert expected in render_html(manifest)


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("portable", "No backend was requested: 1 operator runs on the kernels of ExecuTorch's runtime."),
        ("xnnpack", "The only operator was not delegated, by xnnpack."),
    ],
)
def test_one_operator(tmp_path: Path, backend: str, expected: str) -> None:
    assert _only(_manifest(tmp_path, lambda _, x: x.topk(2, 0).values, backend)).delegated == expected


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """A program with everything delegated, to which tests add what real ones have."""
    return _manifest(tmp_path_factory.mktemp("plain"), lambda layer, x: layer(x).relu(), "mps")


def _with(manifest: Manifest, **changes: Any) -> Manifest:
    (method,) = manifest.methods
    return replace(manifest, methods=(replace(method, **changes),))


def _refused(node: str, operator: str, backend: str = "A", **values: Any) -> NotDelegated:
    location = Location("models/foo.py", values.pop("line", 7), "forward", "y = x")
    return NotDelegated(
        node, operator, backend, "rule", values.get("message", "no"), values.get("help", ""), location
    )


def test_conversions_of_a_quantized_model(plain: Manifest) -> None:
    left = (
        _refused("q", "quantized_decomposed.quantize_per_tensor.default", help="quantize the whole model"),
        _refused("d", "quantized_decomposed.dequantize_per_tensor.default", help="quantize the whole model"),
    )
    found = _only(_with(plain, nodes=4, not_delegated=left))
    assert found.advice == (
        "Set quantize_io of quantized_program, so that the app passes and receives integers.",
    )
    other = (*left, _refused("s", "aten.softmax.int", help="quantize it"))
    found = _only(_with(plain, nodes=5, not_delegated=other, multiplications=0))
    assert "For aten.softmax.int: quantize it." in found.advice


def test_layers_that_a_search_kept_in_float(plain: Manifest) -> None:
    layers = (FloatLayer("a", "aten.linear", 0.5, 0.1, None),) * 2
    points = (SearchPoint(2, 0.9, 100, 0.99, True),)
    search = Search("metrics:top1", 8, 1.0, 0.01, 7, 3, points, layers)
    found = _only(replace(plain, search=search))
    assert found.left == "2 of 7 layers stay in float, so that metrics:top1 loses at most 0.01."
    assert found.advice == ("A larger maximum_loss of quantized_program keeps fewer layers in float.",)
    both = _only(replace(_with(plain, nodes=3, not_delegated=(_refused("x", "aten.a"),)), search=search))
    assert both.left.startswith("2 of 7 layers") and both.left.endswith(" runtime:")  # the reasons follow


def test_notes(plain: Manifest) -> None:
    note = NoteInfo("transposed-input", "the NPU transposes x", "set it.", Location("foo.py", 3, "f", ""))
    assert _only(_with(plain, notes=(note,))).advice == (
        "Note [transposed-input]: foo.py:3: the NPU transposes x; set it.",
    )


def test_reasons_by_number_of_operators(plain: Manifest) -> None:
    left = [_refused(f"a{i}", "aten.a", line=i + 1) for i in range(3)]
    left += [
        _refused(each.node, each.operator, "B", message="later") for each in left
    ]  # the second backend's
    left += [_refused(name, f"aten.{name}", help=f"help {name}") for name in "bcd"]
    found = _only(_with(plain, nodes=8, multiplications=0, not_delegated=tuple(left)))
    assert [reason.text for reason in found.reasons] == [
        "3 aten.a, refused by A: no",
        "1 aten.b, refused by A: no",
        "1 aten.c, refused by A: no",
    ]
    assert [reason.others for reason in found.reasons] == [2, 0, 0]
    assert found.advice[:3] == tuple(f"For aten.{name}: help {name}." for name in "bcd")
    assert found.advice[3].startswith("No option of the backend takes aten.a: ")


def test_names_cannot_control_a_terminal(plain: Manifest) -> None:
    text = format_explanations(
        _with(plain, nodes=3, not_delegated=(_refused("x", "aten.a", message="\x1b[31mred\n"),))
    )
    assert "\x1b" not in text and "\\x1b[31mred\\n" in text
    document = to_json(replace(plain, label="//models:\x9b31mred"))
    assert "\x9b" not in document and "\\u009b31mred" in document
    assert from_json(document).label == "//models:\x9b31mred"
    note = NoteInfo("transposed-input", "\x1b[31mred", "", None)
    reasons = format_reasons(_with(plain, notes=(note,)))
    assert "\x1b" not in reasons and "\\x1b[31mred" in reasons


def test_methods_are_explained_one_by_one(plain: Manifest) -> None:
    (method,) = plain.methods
    second: MethodInfo = replace(method, name="second", nodes=1, nodes_delegated=1)
    both = replace(plain, methods=(method, second))
    text = format_explanations(both)
    assert (
        "//models:foo, method forward\n" in text
        and "\n\n//models:foo, method second\n  The only operator" in text
    )
    assert "<h3>Method <code>second</code></h3>" in render_html(both)
    assert format_explanations(replace(plain, methods=())) == "the program computes nothing\n"
