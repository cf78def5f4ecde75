# SPDX-License-Identifier: Apache-2.0
"""Every output has the same bytes from another directory, with a worker and without one, and from Bazel 7."""

from __future__ import annotations

import re

import pytest
from nested_bazel import NestedBazel, copy_of_the_sources, nested_bazel, with_modules
from outputs import differences, digests

# One or two of every rule, also quantized and with dynamic sizes: a process for each program takes four times
# as long as workers.
_MORE = "_int8_(mixed|portable|vgf|xnnpack|u[0-9]+)|_8da8w|_batch_(mlx|xnnpack)|:digits_portable$"
IN_PROCESSES = (
    f"kind('_program rule', //examples/digits:all) - filter('{_MORE}', //examples/digits:all) + "
    "set(//tests/rules/models:mlp_int8_board //tests/rules/models:mlp_portable_external "
    "//tests/rules/models:mlp_vgf)"
)
# A sample, without programs that need wheels of vendors' compilers.
SAMPLE = (
    "kind('(exported|mlx|mps|portable|quantized|tosa|vulkan)_program rule', "
    "//examples/digits/... + //tests/rules/models:all)"
)
# What one of the others is compared with.
BOTH = f"{SAMPLE} + ({IN_PROCESSES})"
GROUPS = "--output_groups=+debug,+ir,+manifest,+report,+samples,+signature"
KINDS = (
    ".pt2",
    ".pte",
    ".samples.safetensors",
    ".signature.json",
    ".debug.json",
    ".ir.txt",
    ".manifest.json",
    ".report.html",
)


def built_digests(bazel: NestedBazel, strategy: str, process: str, programs_query: str) -> dict[str, str]:
    """Builds programs.

    Args:
        bazel: the Bazel of a workspace.
        strategy: how Bazel shall run the compiler.
        process: pattern of Bazel's log of the process.
        programs_query: query of the programs.

    Returns:
        Path below bazel-bin -> SHA-256, for each output.
    """
    programs = bazel.run("query", programs_query).stdout.split()
    assert programs
    strategies = [
        f"--strategy={mnemonic}={strategy}" for mnemonic in ("TorchExport", "DelegateLower", "DelegateReport")
    ]
    built = bazel.run("build", GROUPS, *strategies, *programs)
    processes = re.search(rf"(\d+) {process}\b", built.stderr)
    assert processes and int(processes[1]) >= len(programs), built.stderr
    return digests(bazel, kinds=KINDS)


@pytest.fixture(scope="module")
def with_workers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of the outputs of one directory, with workers."""
    folder = tmp_path_factory.mktemp("one")
    with nested_bazel(copy_of_the_sources(folder / "workspace"), folder / "output") as bazel:
        return built_digests(bazel, "worker", "worker", BOTH)


@pytest.fixture(scope="module")
def without_workers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of the outputs of another directory, at another depth, without workers."""
    folder = tmp_path_factory.mktemp("other") / "deeper" / "still"
    with nested_bazel(copy_of_the_sources(folder / "rules"), folder / "output") as bazel:
        # linux-sandbox, or its fallback if the host forbids namespaces
        return built_digests(bazel, "sandboxed", "[a-z]+-sandbox", IN_PROCESSES)


def assert_same(sample: dict[str, str], outputs: dict[str, str]) -> None:
    """Asserts that a sample has outputs of all kinds, and that a larger build has the same ones."""
    for found in (sample, outputs):
        assert {kind for kind in KINDS for path in found if path.endswith(kind)} == set(KINDS)
        assert {path.split("/")[0] for path in found} == {"examples", "tests"}
    differing = differences(sample, {path: outputs.get(path, "not built") for path in sample})
    assert not differing, "\n".join(differing)


def test_same_bytes(with_workers: dict[str, str], without_workers: dict[str, str]) -> None:
    assert_same(without_workers, with_workers)


def test_same_bytes_from_both_generations(
    with_workers: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("modules")
    generation = with_modules(is_copy=True)
    with nested_bazel(copy_of_the_sources(folder / "workspace"), folder / "output", generation) as bazel:
        found = built_digests(bazel, "worker", "worker", SAMPLE)
    assert_same(found, with_workers)
