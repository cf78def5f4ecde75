# SPDX-License-Identifier: Apache-2.0
"""A model that imports a wheel of rules_python's `pip.parse`, in Bazel 7 with modules.

rules_python is the one of Debian's package of Bazel; it downloads pip, and pip the wheel, from PyPI.
"""

from __future__ import annotations

from pathlib import Path

from consumer_workspace import consumer_bazel
from nested_bazel import source_root, with_modules

DECLARATION = """\
pip = use_extension("@rules_python//python/extensions:pip.bzl", "pip")
pip.parse(
    name = "team_pip",
    python_interpreter = "python3.11",
    requirements_lock = "//einops:requirements.lock.txt",
)
use_repo(pip, "team_pip")
"""
LOCK = "einops==0.8.2 --hash=sha256:54058201ac7087911181bfec4af6091bb59380360f069276601256a76af08193\n"
BUILD = """
load("@rules_delegate//rules:defs.bzl", "exported_program", "portable_program", "program_test")
load("@team_pip//:requirements.bzl", "requirement")

exported_program(
    name = "turned",
    srcs = ["turned.py"],
    entry = "turned:build",
    deps = [requirement("einops")],
)

portable_program(
    name = "turned_portable",
    program = ":turned",
)

program_test(
    name = "turned_portable_test",
    timeout = "moderate",
    program = ":turned_portable",
)
"""
MODEL = """
import delegatec
import torch
from einops import rearrange


class Turned(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return rearrange(image, "batch channel height width -> batch width (height channel)") * 2


def build() -> delegatec.Model:
    return delegatec.Model(Turned(), (torch.rand(1, 3, 4, 5),))
"""


def test_a_wheel_of_pip_parse(tmp_path: Path) -> None:
    with consumer_bazel(tmp_path, with_modules(is_copy=False)) as consumer:
        with (consumer.workspace / "MODULE.bazel").open("a") as modules:
            modules.write("\n" + DECLARATION)
        folder = consumer.workspace / "einops"
        folder.mkdir()
        (folder / "BUILD.bazel").write_text(BUILD)
        (folder / "requirements.lock.txt").write_text(LOCK)
        (folder / "turned.py").write_text(MODEL)
        consumer.run("test", "//einops:turned_portable_test")
        inputs = consumer.run("aquery", "mnemonic(TorchExport, //einops:turned)").stdout
        assert "site-packages/einops/" in inputs


def test_the_documentation_has_the_same_declaration() -> None:
    page = (source_root() / "docs" / "wheels.md").read_text()
    assert f"```starlark\n# MODULE.bazel\n{DECLARATION}```\n" in page
