# SPDX-License-Identifier: Apache-2.0
"""The files of first models: their text, and whether the models that they build are exported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from delegatec.cli.main import main
from delegatec.diagnostics import DelegatecError
from delegatec.scaffold import files, source_of, transformers_models

MODEL = '''\
"""Net of layers.blocks."""

import torch
from layers.blocks import Net

import delegatec


def build() -> delegatec.Model:
    """Returns the model with an example of its inputs."""
    module = Net()
    return delegatec.Model(module, (torch.rand((1, 8)), torch.ones((2,), dtype=torch.int64)))
'''
BUILD = """\
load("@rules_delegate//rules:defs.bzl", "delegate_programs", "exported_program", "program_test")

exported_program(
    name = "net",
    srcs = ["net.py"],
    entry = "net:build",
    deps = [
        "//layers:blocks",
    ],
)

# :net_mps, :net_xnnpack
delegate_programs(
    name = "net",
    backends = [
        "mps",
        "xnnpack",
    ],
    program = ":net",
)

program_test(
    name = "net_mps_test",
    program = ":net_mps",
)

program_test(
    name = "net_xnnpack_test",
    program = ":net_xnnpack",
)
"""


def test_text() -> None:
    source = source_of("module:layers.blocks:Net", ["float32[1,8]", "int64[2]"])
    written = files(source, "net", ["xnnpack", "mps"], "@rules_delegate")
    assert written == {"net.py": MODEL, "BUILD.bazel": BUILD}


def _new(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs the command as `bazel run` does, in a workspace."""
    (folder / "MODULE.bazel").touch()
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(folder))
    return main(["new", "--directory=models/net", *arguments])


def _export(package: Path, name: str) -> int:
    flags = [
        f"--{kind}={package / file}" for kind, file in (("source", f"{name}.py"), ("program", "exported.pt2"))
    ]
    data = [f"--data={path}" for path in package.glob("*.pt2")]
    return main(["export", f"--entry={name}:build", *flags, *data])


def test_a_model_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _new(tmp_path, monkeypatch, "--model=transformers:google/mobilenet_v2_1.0_224") == 0
    package = tmp_path / "models" / "net"
    build = (package / "BUILD.bazel").read_text()
    assert '"@rules_delegate//wheels:transformers"' in build
    assert _export(package, "mobilenet_v2") == 0
    limit = int(build.partition("max_file_kib = ")[2].partition(",")[0]) * 1024
    pte = tmp_path / "net.pte"
    assert main(["lower", f"--program={package / 'exported.pt2'}", "--backend=xnnpack", f"--pte={pte}"]) == 0
    assert 0.8 * limit < pte.stat().st_size < limit


def test_an_exported_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "models" / "net"
    package.mkdir(parents=True)
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.rand(3, 4),))
    torch.export.save(program, package / "linear.pt2")
    assert _new(tmp_path, monkeypatch, "--model=pt2:linear.pt2") == 0
    assert _export(package, "linear") == 0


def test_existing_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "models" / "net"
    package.mkdir(parents=True)
    for name in ("resnet18.py", "BUILD"):
        (package / name).write_text("mine")
    assert _new(tmp_path, monkeypatch, "--model=timm:resnet18") == 1
    shown = capfd.readouterr().err
    assert "resnet18.py exists" in shown
    assert "BUILD exists" in shown
    assert sorted(path.name for path in package.iterdir()) == ["BUILD", "resnet18.py"]
    assert {path.read_text() for path in package.iterdir()} == {"mine"}


def test_a_library_that_a_model_needs() -> None:
    with pytest.raises(DelegatecError, match=r"DC006: DinatModel needs a library: .*natten"):
        source_of("transformers:dinat", [])
    with pytest.raises(
        DelegatecError, match=r"DC006: HiggsAudioV2TokenizerModel needs a library: .*torchaudio"
    ):
        source_of("transformers:higgs_audio_v2_tokenizer", [])


@pytest.mark.parametrize(
    ("model", "inputs", "problem"),
    [
        ("resnet18", [], "'resnet18' is not a model"),
        ("onnx:net.onnx", [], "'onnx:net.onnx' is not a model"),
        ("timm:", [], "'timm:' is not a model"),
        ("timm:resnet18", ["float32[1]"], "--input does not apply to timm:"),
        ("module:layers", ["float32[1]"], "'layers' is not a class of a Python module"),
        ("module:layers:Net", [], "the example inputs of layers:Net are unknown"),
        ("module:layers:Net", ["float32[1,]", "real[2]"], "float32[1,], real[2]: not an input"),
        ("pt2:../net.pt2", [], "'../net.pt2' is not a .pt2 in the new package"),
        ("transformers:mobilbert", [], "transformers has no model mobilbert; near it: mobilebert"),
        ("transformers:T5Model", [], "T5Model has an encoder and a decoder"),
        ("transformers:openai/clip-vit-base-patch32", [], "CLIPModel has several inputs: image, text"),
        ("transformers:canine", [], "the input input_ids of CanineModel is unknown"),
        ("transformers:encodec", [], "EncodecModel branches on values of tensors"),
        ("transformers:mixtral", [], "MixtralModel with the default MixtralConfig has 186 GB of weights"),
        (
            "transformers:musicgen_melody",
            [],
            "cannot be called with an example of its input_ids alone: shape",
        ),
        ("transformers:voxtral_realtime_text", [], "lists VoxtralRealtimeTextModel without having it"),
        ("transformers:bros", [], "BrosModel cannot be called with an example of its input_ids alone: "),
        ("transformers:rf_detr", [], "cannot be called with an example of its pixel_values alone: k not in"),
        ("transformers:pp_ocrv6_medium_det", [], "cannot be built with the default PPOCRV6MediumDetConfig"),
        ('timm:resnet18"', [], "'resnet18\"' is not a model of timm"),
        ('pt2:a"b.pt2', [], "'a\"b.pt2' is not a .pt2 in the new package"),
    ],
)
def test_refusals(model: str, inputs: list[str], problem: str) -> None:
    with pytest.raises(DelegatecError, match="DC001") as raised:
        source_of(model, inputs)
    assert problem in str(raised.value)


def test_a_model_of_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their products have no shape in float32 on the device of the check, and one in exports."""
    monkeypatch.setattr(transformers_models, "_MOST_BYTES", 10**12)
    source = source_of("transformers:olmoe", [])
    assert source.body == ("config = OlmoeConfig()", "module = OlmoeModel(config)")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("MobileBertModel", "torch.randint(config.vocab_size, (1, 128))"),
        ("xlnet", "torch.randint(config.vocab_size, (1, 128))"),
        ("CLIPVisionModel", "torch.rand(1, 3, 224, 224)"),
        ("yolos", "torch.rand(1, 3, 512, 864)"),
        ("facebook/wav2vec2-base", "torch.rand(1, 16000)"),
        ("dac", "torch.rand(1, 1, 16000)"),
        ("ASTModel", "torch.rand(1, config.max_length, config.num_mel_bins)"),
    ],
)
def test_example_inputs(model: str, expected: str) -> None:
    assert source_of(f"transformers:{model}", []).inputs == (expected,)
