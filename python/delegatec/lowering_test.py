# SPDX-License-Identifier: Apache-2.0
"""Lowering with several backends, rules, and backends per method; operators that are not delegated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch.export import ExportedProgram

from delegatec.backends import builtin_backends
from delegatec.backends.arm.ethos_u import backend as ethos_u
from delegatec.delegation import BackendRegistry, OptionSpec, PartitionRules
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.quantization.operators import quantized
from delegatec.edge.testing import Function
from delegatec.lowering import Program, lower
from delegatec.program import ProgramOptions, write_program
from delegatec.program.reader import read_program
from delegatec.report.build import build_manifest
from delegatec.report.html import render_html
from delegatec.report.manifest import Manifest, to_json
from delegatec.report.reasons import format_reasons
from delegatec.verify.interpreter import Interpreter

aten = torch.ops.aten
X = torch.randn(3, 8)


class Net(torch.nn.Module):
    """Operators that MPS supports, around float64 ones that it does not: a sum, and a flip."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu().double().cumsum(1).flip(0).float())


class Sums(EagerBackend):
    """Takes cumulative sums only."""

    name = "sums"

    def partitioner(self, compile_specs: Sequence[Any]) -> SupportsAllBut:
        return SupportsAllBut(
            aten.linear.default,
            aten.relu.default,
            aten.flip.default,
            aten.addmm.default,
            aten.permute.default,
            aten._to_copy.default,
        )


def exported(module: torch.nn.Module | None = None) -> ExportedProgram:
    torch.manual_seed(0)
    return torch.export.export((module or Net()).eval(), (X,))


def eager() -> torch.Tensor:
    torch.manual_seed(0)
    with torch.no_grad():
        result: torch.Tensor = Net().eval()(X)
    return result


def manifest_of(lowered: Program, path: Path) -> Manifest:
    with open(path, "wb") as file:
        write_program(lowered.emitted, file)
    return build_manifest(
        lowered,
        path,
        compiler="test",
        label="//test",
    )


def run_file(lowered: Program, path: Path, registry: Any, method: str = "forward") -> torch.Tensor:
    with open(path, "wb") as file:
        write_program(lowered.emitted, file)
    (result,) = Interpreter(read_program(path).method(method), registry).run([X])
    assert isinstance(result, torch.Tensor)
    return result


def test_several_backends_in_order_of_priority(tmp_path: Path) -> None:
    registry = builtin_backends()
    registry.register(Sums())
    lowered = lower({"forward": exported()}, ["sums", "mps"], {"mps.precision": "fp16"}, registry=registry)
    report = lowered.reports["forward"]
    assert [d.module.backend_id for d in report.delegates] == ["EagerBackend", "MPSBackend", "MPSBackend"]
    assert (lowered.backend, lowered.options) == (
        "sums, mps",
        {"mps.precision": "fp16", "mps.int4": "int8", "mps.fp16_overflow": "error"},
    )
    assert [(r.backend_id, r.operator) for r in report.rejections if "flip" in r.operator] == [
        ("EagerBackend", "aten.flip.default"),
        ("MPSBackend", "aten.flip.default"),
    ]
    torch.testing.assert_close(run_file(lowered, tmp_path / "p.pte", registry), eager(), atol=2e-2, rtol=2e-2)
    manifest = manifest_of(lowered, tmp_path / "p.pte")
    assert manifest.methods[0].backends == ("sums", "mps")
    html = render_html(manifest)
    assert '<span class="tag">MPSBackend</span>' in html and '<span class="tag">EagerBackend</span>' in html


def test_options_that_are_lists_reach_the_manifest_and_the_report(tmp_path: Path) -> None:
    backend = EagerBackend()
    backend.options = {"system": OptionSpec((), "", "any"), "flags": OptionSpec((), (), "several")}
    options = {"system": "a=b, c", "flags": ["--x=1", "--y"]}
    lowered = lower({"forward": exported()}, "eager", options, registry=BackendRegistry([backend]))
    assert lowered.options == {"system": "a=b, c", "flags": ("--x=1", "--y")}
    manifest = manifest_of(lowered, tmp_path / "p.pte")
    assert json.loads(to_json(manifest))["options"] == {"flags": ["--x=1", "--y"], "system": "a=b, c"}
    assert "flags --x=1 --y · system a=b, c<" in render_html(manifest)


def test_rules_reach_the_backend_and_the_reasons(tmp_path: Path) -> None:
    rules = PartitionRules(block_modules=("second",), block_operators=("aten.relu",))
    lowered = lower({"forward": exported()}, "mps", rules=rules)
    manifest = manifest_of(lowered, tmp_path / "p.pte")
    text = format_reasons(manifest)
    assert text.startswith("method forward: 1 of 7 operators in 1 delegate, by mps\n  lowered_0: 1 operators")
    assert (
        "  aten.relu.default, rejected by MPSBackend [block-operators]: "
        'aten.relu.default matches "aten.relu"\n    at ' in text
    )
    assert "lowering_test.py" in text
    assert '    help: remove "second" from block_modules\n' in text
    assert "aten.cumsum.default, rejected by MPSBackend [dtype]: " in text
    assert "block_modules" in render_html(manifest)
    torch.testing.assert_close(run_file(lowered, tmp_path / "p.pte", builtin_backends()), eager())

    with pytest.raises(DelegatecError, match='block_modules names "third"') as error:
        lower({"forward": exported()}, "mps", rules=PartitionRules(block_modules=("third",)))
    assert [d.code for d in error.value.diagnostics] == ["DC412"]


def test_rules_that_match_nothing() -> None:
    rules = PartitionRules(block_operators=("aten.conv2d",))
    with pytest.raises(DelegatecError, match=r'block_operators names "aten\.conv2d": the model has no such'):
        lower({"forward": exported()}, "mps", rules=rules)
    assert lower({"forward": exported()}, "mps", rules=rules, is_part=True).reports["forward"].delegates
    assert lower({"forward": exported()}, rules=rules, is_part=True).reports == {}


def test_one_backend_with_two_settings() -> None:
    backends = ["mps", "delegatec.backends.mps:BACKEND"]
    lowered = lower({"forward": exported()}, backends, {"mps.precision": "fp16"})
    assert lowered.options["mps.precision"] != lowered.options[f"{backends[1]}.precision"]


def test_a_backend_for_each_method(tmp_path: Path) -> None:
    methods = {"encode": exported(), "decode": exported()}
    lowered = lower(methods, "mps", method_backends={"decode": "portable"})
    assert list(lowered.reports) == ["encode"]
    assert (lowered.backend, lowered.options) == (
        "mps",
        {"precision": "fp32", "int4": "int8", "fp16_overflow": "error"},
    )
    manifest = manifest_of(lowered, tmp_path / "p.pte")
    assert [method.backends for method in manifest.methods] == [("mps",), ()]
    assert [bool(method.delegates) for method in manifest.methods] == [True, False]
    assert "method decode: no backend requested\n" in format_reasons(manifest)
    for method in methods:
        torch.testing.assert_close(run_file(lowered, tmp_path / "p.pte", builtin_backends(), method), eager())


class Quantized(torch.nn.Module):
    """A sum between quantized values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = through(x)
        return through(y + y)


def through(x: torch.Tensor) -> torch.Tensor:
    integers = quantized.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
    result: torch.Tensor = quantized.dequantize_per_tensor(integers, 0.1, 3, -128, 127, torch.int8)
    return result


def test_a_failure_of_a_backend_is_the_only_problem() -> None:
    """Quantized calls outside of the delegate would have become arithmetic."""
    failed = DelegatecError([Diagnostic("DC431", "Vela fails")])
    program = torch.export.export(Quantized(), (torch.randn(3, 4),))
    with (
        patch.object(ethos_u, "compile_graph", side_effect=failed),
        pytest.raises(DelegatecError) as raised,
    ):
        lower({"forward": program}, "ethos_u")
    assert [each.code for each in raised.value.diagnostics] == ["DC431"]


def test_options_of_a_backend_apply_to_its_own_methods() -> None:
    options = {"mps.precision": "fp16", "vulkan.storage": "buffer"}
    both = {"encode": exported(), "decode": exported()}
    lowered = lower(both, "mps", options, method_backends={"decode": "vulkan"})
    assert lowered.options["mps.precision"] == "fp16" and lowered.options["vulkan.storage"] == "buffer"
    alone = lower({"decode": exported()}, "mps", options, method_backends={"decode": "vulkan"})
    assert alone.options == {
        name.removeprefix("vulkan."): value
        for name, value in lowered.options.items()
        if name.startswith("vulkan.")
    }
    with pytest.raises(DelegatecError, match=r"DC414.*option 'precision' does not name its backend"):
        lower({"f": exported()}, "mps", {"precision": "fp16"}, method_backends={"f": "vulkan"})


@pytest.mark.parametrize(
    ("arguments", "codes", "message"),
    [
        ({"backend": ["mps", "portable"]}, ["DC401"], "portable is listed with other backends"),
        ({"backend": "mps", "method_backends": {"forwards": "mps"}}, ["DC413"], "no method 'forwards'"),
        (
            {"backend": ["mps", "eager"], "options": {"precision": "fp16"}},
            ["DC414"],
            "expected: mps.precision or eager.precision",
        ),
        (
            {"backend": ["mps", "nope"], "options": {"mps.precision": "fp8", "mps.x": "1"}},
            ["DC402", "DC402", "DC401"],
            "no backend is named 'nope'",
        ),
        ({"backend": "portable", "options": {"precision": "fp16"}}, ["DC402"], "has no option 'precision'"),
        (
            {"backend": ["mps", "eager", "mps"], "method_backends": {"forward": ["eager", "eager"]}},
            ["DC423", "DC423"],
            "backend 'mps' is listed twice: mps, eager, mps",
        ),
        (
            {"backend": ["mps", "delegatec.backends.mps:BACKEND"]},
            ["DC423"],
            "'delegatec.backends.mps:BACKEND' is the same backend as 'mps', with the same options",
        ),
        (
            {
                "backend": ["portable"],
                "rules": PartitionRules(block_modules=("second",), maximum_delegates=1),
                "program_options": ProgramOptions(inline_delegates=True),
                "require_full_delegation": True,
            },
            ["DC405", "DC423"],
            "block_modules and maximum_delegates and inline_delegates have no effect without a backend",
        ),
    ],
)
def test_wrong_choices_are_reported_together(
    arguments: Mapping[str, Any], codes: list[str], message: str
) -> None:
    registry = builtin_backends()
    registry.register(EagerBackend())
    with pytest.raises(DelegatecError, match=message) as error:
        lower({"forward": exported()}, registry=registry, **arguments)
    assert [d.code for d in error.value.diagnostics] == codes


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x: torch.full_like(x > 0, True) ^ (x > 1)])
def test_a_program_is_lowered_once(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Constants that lowering computes, as in the second program, are not inputs of torch's signature."""
    program = exported(Function(function))
    lower({"forward": program}, [])
    with pytest.raises(DelegatecError, match="DC415: the exported program was lowered before"):
        lower({"forward": program}, [])
