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

import delegatec
from delegatec.backends import builtin_backends
from delegatec.backends.arm.ethos_u import backend as ethos_u
from delegatec.backends.mps.backend import MPS
from delegatec.delegation import BackendRegistry, OptionSpec, PartitionRules, call_delegate
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge import to_edge
from delegatec.edge.analysis.quantized import quantized
from delegatec.edge.module import EdgeModule
from delegatec.edge.scaled import ScaledTensor
from delegatec.lowering import Lowered, lower
from delegatec.program import write_program
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


def manifest_of(lowered: Lowered, path: Path) -> Manifest:
    with open(path, "wb") as file:
        write_program(lowered.emitted, file)
    return build_manifest(
        compiler="test",
        label="//test",
        backend=lowered.backend,
        options=lowered.options,
        method_backends=lowered.backends,
        programs=lowered.programs,
        reports=lowered.reports,
        emitted=lowered.emitted,
        pte=path,
    )


def run_file(lowered: Lowered, path: Path, registry: Any, method: str = "forward") -> torch.Tensor:
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


class Levels(torch.nn.Module):
    """A sum between quantized values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = through(x)
        return through(y + y)


def through(x: torch.Tensor) -> torch.Tensor:
    levels = quantized.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
    result: torch.Tensor = quantized.dequantize_per_tensor(levels, 0.1, 3, -128, 127, torch.int8)
    return result


def test_a_failure_of_a_backend_is_the_only_problem() -> None:
    """Quantized calls outside of the delegate would have become arithmetic."""
    failed = DelegatecError([Diagnostic("DC431", "Vela fails")])
    program = torch.export.export(Levels(), (torch.randn(3, 4),))
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


class Odd(torch.nn.Module):
    """Runs a function between operators that MPS supports."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x.exp()).sin()


def test_a_lowered_program_in_a_model_is_written(tmp_path: Path) -> None:
    registry = builtin_backends()
    registry.register(EagerBackend())
    specs = EagerBackend().compile_specs({})
    inner = delegatec.to_backend("EagerBackend", to_edge(exported()), specs, registry=registry)
    module = Odd(inner)
    lowered = lower({"forward": torch.export.export(module, (X,))}, "mps", registry=registry)
    ids = [
        lowered.programs["forward"].graph_module.get_submodule(str(node.args[0])).backend_id
        for node in lowered.programs["forward"].graph.nodes
        if node.target is call_delegate
    ]
    assert ids == ["MPSBackend", "EagerBackend", "MPSBackend"]
    wanted = module(X)
    torch.testing.assert_close(EdgeModule(lowered.programs["forward"])(X), wanted)
    torch.testing.assert_close(run_file(lowered, tmp_path / "p.pte", registry), wanted)
    manifest = manifest_of(lowered, tmp_path / "p.pte")
    assert [d.backend for d in manifest.methods[0].delegates] == ["MPSBackend", "MPSBackend", "EagerBackend"]
    assert manifest.methods[0].delegates[2].name == "lowered0"
    # The delegate's handles refer to its original program; in this one it is one node.
    (method,) = lowered.emitted.methods
    (delegate,) = [d for d in method.delegates if d.backend_id == "EagerBackend"]
    (call,) = [node for node in lowered.programs["forward"].graph.nodes if "lowered0" in map(str, node.args)]
    assert inner.debug_handle_map and delegate.debug_handle_map == {0: (call.meta["debug_handle"],)}
    assert (call.meta["debug_handle"],) in method.debug_handles


class Steps(torch.nn.Module):
    """A branch whose bodies MPS supports partially and completely; both use the same layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def then(x: torch.Tensor) -> torch.Tensor:
            return self.one(x).relu().double().cumsum(1).float() + self.two(x)

        def otherwise(x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.two(x).sin()
            return result

        branch: torch.Tensor = torch.cond(x.sum() > 0, then, otherwise, (x,))
        return branch.exp()


def test_delegates_in_bodies_reach_the_file(tmp_path: Path) -> None:
    module = Steps().eval()
    lowered = lower({"forward": torch.export.export(module, (X,))}, "mps")
    manifest = manifest_of(lowered, tmp_path / "p.pte")
    assert [d.name for d in manifest.methods[0].delegates] == [f"lowered_{number}" for number in range(5)]
    left = {item.operator for item in manifest.methods[0].not_delegated}
    assert left == {"cond", "aten.cumsum.default", "aten._to_copy.default"}
    assert manifest.weights == ()  # They all went with the delegates, out of the bodies too.
    for x in (X.abs(), -X.abs()):
        (result,) = Interpreter(read_program(tmp_path / "p.pte").method("forward"), builtin_backends()).run(
            [x]
        )
        with torch.no_grad():
            torch.testing.assert_close(result, module(x))


def test_the_public_function_has_the_built_in_backends() -> None:
    class Simple(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp().sin()

    lowered = delegatec.to_backend("MPSBackend", to_edge(exported(Simple())))
    torch.testing.assert_close(lowered(X), Simple()(X))
    with pytest.raises(DelegatecError, match=r"no backend has the id 'MPS'[\s\S]*expected: .*MPSBackend"):
        delegatec.to_backend("MPS", to_edge(exported(Simple())))
    program, report = delegatec.to_backend(to_edge(exported(Simple())), MPS.partitioner([]))
    assert len(report.delegates) == 1
    torch.testing.assert_close(EdgeModule(program)(X), Simple()(X))


@pytest.mark.parametrize(
    ("backend", "options"), [("portable", {}), ("mps", {"precision": "fp32"}), ("mps", {"precision": "fp16"})]
)
def test_batch_norm_is_folded_while_weights_are_written(
    tmp_path: Path, backend: str, options: Mapping[str, str]
) -> None:
    def block() -> list[torch.nn.Module]:
        norm = torch.nn.BatchNorm2d(4)
        norm.running_var.uniform_(0.5, 2)
        return [torch.nn.Conv2d(4, 4, 3, padding=1), norm, torch.nn.ReLU()]

    torch.manual_seed(0)
    net = torch.nn.Sequential(*block(), *block(), torch.nn.ConvTranspose2d(4, 4, 3), torch.nn.BatchNorm2d(4))
    x, sizes = torch.rand(2, 4, 6, 5), {0: torch.export.Dim("n", min=1, max=4)}
    program = torch.export.export(net.eval(), (x,), dynamic_shapes=(sizes,))
    lowered = lower({"forward": program}, backend, options)
    constants = [c for each in lowered.programs.values() for c in each.constants.values()]
    assert sum(isinstance(c, ScaledTensor) for c in constants) == 3
    with open(tmp_path / "p.pte", "wb") as file:
        write_program(lowered.emitted, file)
    method = read_program(tmp_path / "p.pte").method("forward")
    (result,) = Interpreter(method, builtin_backends()).run([x])
    tolerance = 5e-3 if "fp16" in options.values() else 1e-5
    torch.testing.assert_close(result, net(x).detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backend", ["tosa", "mps", "portable"])
def test_blobs_as_files(tmp_path: Path, backend: str) -> None:
    lowered = lower({"forward": exported(Odd(lambda x: x.cos()))}, backend)
    files = {path.name: path.read_bytes() for path in delegatec.extract(lowered, tmp_path / "blobs")}
    assert {path.name for path in (tmp_path / "blobs").rglob("*.*")} == {*files}
    if backend == "portable":
        assert files == {}
        return
    blob = files["0.tosa" if backend == "tosa" else "0.blob"]
    (delegate,) = lowered.reports["forward"].delegates
    assert blob == delegate.module.blob_bytes()
    assert b"lowering_test.py:" in files["0.txt"]
    assert json.loads(files["0.json"])["title"]
