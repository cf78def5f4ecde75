# SPDX-License-Identifier: Apache-2.0
"""A workspace that has this one as an external repository: builds, tests, runs and queries its programs."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from consumer_workspace import consumer_bazel
from nested_bazel import NestedBazel


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedBazel]:
    """The workspace in `workspace/`."""
    with consumer_bazel(tmp_path_factory.mktemp("consumer")) as bazel:
        yield bazel


def test_programs_agree_with_eager_mode(consumer: NestedBazel) -> None:
    consumer.run("test", "//...")


def test_runtime_of_the_consumer(consumer: NestedBazel) -> None:
    consumer.run("test", "//model:net_portable_test")
    log = consumer.workspace / "bazel-testlogs" / "model" / "net_portable_test" / "test.log"
    rows = [line for line in log.read_text().splitlines() if line.startswith("forward")]
    assert [("own 1.0" in row, "  module  " in row) for row in rows] == [
        (False, False),
        (True, False),
        (False, True),
        (True, True),
    ]


def test_files_of_a_program(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:net_mps", "--output_groups=+manifest,+report,+debug,+ir")
    folder = consumer.workspace / "bazel-bin" / "model"
    assert (folder / "net_mps.pte").read_bytes()[4:8] == b"ET12"
    assert json.loads((folder / "net_mps.manifest.json").read_text())
    assert json.loads((folder / "net_mps.debug.json").read_text()) is not None
    assert "<html" in (folder / "net_mps.report.html").read_text()
    assert (folder / "net_mps.ir.txt").read_text()


def test_backend_of_the_consumer(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:net_clamp")
    program = (consumer.workspace / "bazel-bin" / "model" / "net_clamp.pte").read_bytes()
    assert b"ClampBackend" in program
    # One relu in each residual layer, with equal blobs, which are stored once.
    assert program.count(b"CLMP2") == 1
    assert b"--optimize=size --cores=1,2" in program and b"a system, with a comma" in program


def test_debug_map_of_the_consumers_backend(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:net_clamp", "--output_groups=+debug,+etrecord")
    folder = consumer.workspace / "bazel-bin" / "model"
    method = json.loads((folder / "net_clamp.debug.json").read_text())["methods"]["forward"]
    for delegate in method["delegates"]:
        (index,) = delegate["instructions"]
        ((identifier, handles),) = delegate["map"].items()
        assert delegate["backend"] == "ClampBackend" and identifier == "clamp"
        assert method["instructions"][index]["handles"] == handles
        (origin,) = (method["handles"][str(handle)] for handle in handles)
        assert origin["operator"] == "aten.relu.default"
        assert origin["source"].startswith("layers/residual.py:")
    assert len(method["delegates"]) == 2
    with zipfile.ZipFile(folder / "net_clamp.etrecord") as record:
        delegates = json.loads(record.read("delegate_map"))["forward"]
    assert {entry["name"] for entry in delegates.values()} == {"ClampBackend"}
    text = consumer.run("run", "//model:net_clamp.inspect", "--", "--blobs", "--lines").stdout
    assert "clamp, 2 times" in text
    assert "layers/residual.py:" in text


def test_built_in_backends_come_through_the_same_door(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:net_mps", "//model:net_mps_by_name")
    folder = consumer.workspace / "bazel-bin" / "model"
    assert (folder / "net_mps.pte").read_bytes() == (folder / "net_mps_by_name.pte").read_bytes()


def test_several_backends_and_why_the_rest_stayed(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:net_several", "--output_groups=+reasons")
    folder = consumer.workspace / "bazel-bin" / "model"
    program = (folder / "net_several.pte").read_bytes()
    assert b"ClampBackend" in program and b"MPSBackend" in program
    reasons = (folder / "net_several.reasons.txt").read_text()
    assert "by clamp, mps\n" in reasons
    assert "rejected by MPSBackend [block-operators]" in reasons
    assert 'help: remove "aten.add" from block_operators' in reasons


def test_tools_of_other_backends_are_not_fetched(consumer: NestedBazel) -> None:
    """Vela and the model converter are for `ethos_u_program` and `vgf_program`, the runtime for C++ apps."""
    consumer.run("build", "//model:net_tosa")
    (external,) = consumer.output_user_root.glob("*/external")
    fetched = {path.name for path in external.iterdir()}
    assert "delegatec_pip_compiler" in fetched
    assert fetched.isdisjoint({"delegatec_pip_model_converter", "delegatec_pip_vela"})
    assert not [name for name in fetched if name.startswith("delegatec_runtime")]


def test_private_wheels(consumer: NestedBazel) -> None:
    """The lock of one also has torch, which is left to the compiler: pip would reject the hash."""
    aspect = "--aspects=@rules_delegate//rules:sbom.bzl%sbom"
    consumer.run("build", "//model:scaled_portable", "--output_groups=+debug,+sbom", aspect)
    folder = consumer.workspace / "bazel-bin" / "model"
    debug = (folder / "scaled_portable.debug.json").read_text()
    assert "team_layers/scale.py:" in debug and "team_shifts.py:" in debug
    document = json.loads((folder / "scaled_portable.cdx.json").read_text())
    wheels = {part["name"]: part for part in document["components"] if part["type"] == "library"}
    assert {"team-layers", "team-shifts", "torch"} <= wheels.keys()
    lock = (consumer.workspace / "wheels" / "team.lock.txt").read_text()
    assert wheels["team-layers"]["hashes"][0]["content"] in lock
    assert "hashes" not in wheels["team-shifts"], "it has no lock"


def test_licenses_of_private_wheels(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:scaled_bundle")
    licenses = consumer.workspace / "bazel-bin" / "model" / "scaled_bundle" / "licenses"
    texts = {path.name: path.read_text() for path in licenses.rglob("*") if path.is_file()}
    assert texts == {"LICENSE": "All rights reserved.\n", "NOTICE.txt": "Of the team.\n"}


def test_wheels_that_do_not_fit(consumer: NestedBazel) -> None:
    refused = consumer.attempt("build", "@unfit_wheels//:lib")
    assert refused.returncode != 0
    assert "error DC016: the wheels of //wheels:unfit.lock.txt cannot be used together" in refused.stderr
    assert "wheels/unfit.lock.txt:2: numpy==1.26.4: the compiler's lock:" in refused.stderr
    assert "wheels/unfit.lock.txt:3: nvidia-cublas==13.1.0: a wheel for GPUs" in refused.stderr


def test_query_by_kind(consumer: NestedBazel) -> None:
    mps = consumer.run("query", "kind(mps_program, //model:all)").stdout.split()
    assert sorted(mps) == ["//model:net_half_mps", "//model:net_mps"]
    vulkan = consumer.run("query", "kind(vulkan_program, //model:all)").stdout.split()
    assert sorted(vulkan) == ["//model:net_half_vulkan", "//model:net_vulkan"]
    portable = consumer.run("query", "kind(portable_program, //model:all)").stdout.split()
    assert sorted(portable) == ["//model:net_portable", "//model:scaled_portable"]


def test_rules_have_their_public_names(consumer: NestedBazel) -> None:
    listed = consumer.run("query", "//model:all + //settings:all", "--output=label_kind").stdout.splitlines()
    kinds = {label: kind for kind, _, label in (line.split(" ") for line in listed)}
    assert {label: kind for label, kind in kinds.items() if kind.endswith("_program")} == {
        "//model:int8_weights": "exported_program",
        "//model:missing_entry": "exported_program",
        "//model:net": "exported_program",
        "//model:net_8da8w": "quantized_program",
        "//model:net_8da8w_xnnpack": "xnnpack_program",
        "//model:net_clamp": "delegate_program",
        "//model:net_half_mps": "mps_program",
        "//model:net_half_vulkan": "vulkan_program",
        "//model:net_mps": "mps_program",
        "//model:net_mps_by_name": "delegate_program",
        "//model:net_portable": "portable_program",
        "//model:net_several": "delegate_program",
        "//model:net_tosa": "tosa_program",
        "//model:net_vulkan": "vulkan_program",
        "//model:scaled": "exported_program",
        "//model:scaled_portable": "portable_program",
        "//model:unknown_backend": "delegate_program",
        "//settings:net": "mps_program",
        "//settings:net_of_camera": "vulkan_program",
        "//settings:net_with_memory": "vulkan_program",
    }
    assert kinds["//settings:net_variants"] == "program_variants"
    assert [label for label, kind in kinds.items() if kind.startswith("_")] == []


def test_queries_of_the_documentation(consumer: NestedBazel) -> None:
    of_net = 'kind("_program rule", rdeps(//settings:all, //model:net, 1)) - //model:net'
    lowered = sorted(consumer.run("query", of_net).stdout.split())
    assert lowered == [f"//settings:{name}" for name in ("net", "net_of_camera", "net_with_memory")]
    manual = "kind(program_inspect, attr(tags, manual, //settings:all))"
    assert sorted(consumer.run("query", manual).stdout.split()) == [f"{name}.inspect" for name in lowered]


def test_a_setting_of_the_consumer(consumer: NestedBazel) -> None:
    lowering = "mnemonic(DelegateLower, //settings:net)"
    for precision in ("fp16", "fp32"):
        command = consumer.run("aquery", lowering, f"--//settings:precision={precision}").stdout
        assert f"--option=precision={precision}" in command


def test_variants_are_the_programs_under_their_settings(consumer: NestedBazel) -> None:
    folder = consumer.workspace / "bazel-bin" / "settings"
    precisions = {"full": "fp32", "half": "fp16"}
    # The flag of the command line does not change a variant.
    consumer.run("build", "//settings:net_variants", "--//settings:precision=fp16")
    index = json.loads((folder / "net_variants" / "index.json").read_text())
    assert index["variants"] == [
        {
            "name": variant,
            "programs": [{"file": f"{variant}/net.pte", "label": "//settings:net", "weights": None}],
            "settings": {"//settings:precision": precision},
        }
        for variant, precision in precisions.items()
    ]
    variants = {variant: (folder / f"net_variants/{variant}/net.pte").read_bytes() for variant in precisions}
    assert variants["full"] != variants["half"]
    for variant, precision in precisions.items():
        consumer.run("build", "//settings:net", f"--//settings:precision={precision}")
        assert (folder / "net.pte").read_bytes() == variants[variant]


def test_a_bundle_and_an_index_have_all_variants(consumer: NestedBazel) -> None:
    consumer.run("build", "//settings:both_precisions", "//settings:index")
    folder = consumer.workspace / "bazel-bin" / "settings"
    shipped = json.loads((folder / "both_precisions" / "index.json").read_text())["programs"]
    assert {each["file"]: each["options"]["precision"] for each in shipped} == {
        "settings/net_variants/full/net.pte": "fp32",
        "settings/net_variants/half/net.pte": "fp16",
    }
    listed = json.loads((folder / "index.json").read_text())["programs"]
    assert sorted(each["options"].rpartition("=")[2] for each in listed) == ["fp16", "fp32"]


def test_a_program_of_another_product_is_skipped(consumer: NestedBazel) -> None:
    consumer.run("build", "--nobuild", "//settings:all")
    refused = consumer.attempt("build", "--nobuild", "//settings:net_of_camera")
    assert refused.returncode != 0
    assert "//settings:camera" in refused.stderr


def test_properties_of_a_program_select_the_executor_of_its_lowering(consumer: NestedBazel) -> None:
    """The log has the actions that run, so the build is one of a configuration that no other test has."""
    log = consumer.workspace / "executed.json"
    consumer.run("build", "-c", "opt", "//settings:net_with_memory", f"--execution_log_json_file={log}")
    properties = {each["mnemonic"]: each["platform"]["properties"] for each in _documents(log.read_text())}
    assert properties["DelegateLower"] == [{"name": "min_memory", "value": "32G"}]
    assert properties["TorchExport"] == []


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """Yields the JSON documents of a text, which has only space between them."""
    decoder = json.JSONDecoder()
    while text:
        document, end = decoder.raw_decode(text)
        yield document
        text = text[end:].lstrip()


def test_inspect(consumer: NestedBazel) -> None:
    assert "MPSBackend" in consumer.run("run", "//model:net_mps.inspect").stdout
    assert "buffer, memory " in consumer.run("run", "//model:net_half_vulkan.inspect", "--", "--blobs").stdout


def test_a_wrong_model_is_one_message(consumer: NestedBazel) -> None:
    refused = consumer.attempt("build", "//model:missing_entry")
    assert refused.returncode != 0
    assert "//model:missing_entry: error DC1" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (consumer.workspace / "bazel-bin" / "model" / "missing_entry.pt2").exists()
