# SPDX-License-Identifier: Apache-2.0
"""Programs of the consumer's workspace by remote execution: on a bare worker, cached, with the same bytes."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nested_bazel import NestedBazel, nested_bazel, source_root

from tests.remote.engine import Engine, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no remote execution server: {missing()}")

# One export and two lowerings.
TARGETS = ("//model:net_mps", "//model:net_portable")
OUTPUTS = ("net.pt2", "net_mps.pte", "net_portable.pte")


@dataclass(frozen=True)
class Built:
    """One build.

    Attributes:
        processes: how Bazel ran the actions -> their number, without those that it performs itself.
        digests: output -> SHA-256.
    """

    processes: dict[str, int]
    digests: dict[str, str]


def build(bazel: NestedBazel, *flags: str) -> Built:
    """Builds TARGETS."""
    log = bazel.run("build", *flags, *TARGETS).stderr
    summary = re.search(r"(?m)^INFO: \d+ process(?:es)?: (.*)\.$", log)
    assert summary, log
    processes = {kind: int(number) for number, kind in re.findall(r"(\d+) ([\w -]+)", summary[1])}
    processes.pop("internal", None)
    folder = bazel.workspace / "bazel-bin" / "model"
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in OUTPUTS}
    return Built(processes, digests)


def consumer(folder: Path) -> Path:
    """Writes a copy of the consumer's workspace."""
    workspace = folder / "workspace"
    shutil.copytree(source_root() / "tests" / "consumer" / "workspace", workspace)
    declaration = workspace / "WORKSPACE"
    declaration.write_text(declaration.read_text().replace("%{rules_delegate}", str(source_root())))
    return workspace


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Built]]:
    """Builds of two clients, each with its own directory, and one server, which is killed in between."""
    engine = Engine(tmp_path_factory.mktemp("engine"))
    engine.start()
    remote = f"--remote_executor={engine.address}"
    results = {}
    try:
        one = tmp_path_factory.mktemp("one")
        with nested_bazel(consumer(one), one / "output") as bazel:
            results["empty cache"] = build(bazel, remote)
            bazel.run("clean")
            results["local"] = build(bazel)
        other = tmp_path_factory.mktemp("other") / "deeper"
        with nested_bazel(consumer(other), other / "output") as bazel:
            results["second client"] = build(bazel, remote)
            bazel.run("clean")
            engine.kill()
            engine.start()
            results["killed server"] = build(bazel, remote)
    finally:
        engine.stop()
        shutil.rmtree(engine.folder, ignore_errors=True)
    yield results


def test_every_action_runs_on_a_bare_worker(builds: dict[str, Built]) -> None:
    assert set(builds["empty cache"].processes) == {"remote"}
    assert builds["empty cache"].processes["remote"] >= len(OUTPUTS)


def test_a_second_client_runs_nothing(builds: dict[str, Built]) -> None:
    expected = {"remote cache hit": builds["empty cache"].processes["remote"]}
    assert builds["second client"].processes == expected


def test_the_cache_survives_a_killed_server(builds: dict[str, Built]) -> None:
    assert builds["killed server"].processes == builds["second client"].processes


def test_the_same_bytes_as_a_local_build(builds: dict[str, Built]) -> None:
    local = builds["local"]
    assert not any("remote" in kind for kind in local.processes)
    assert local.digests == {name: builds["empty cache"].digests[name] for name in OUTPUTS}
    assert len(set(local.digests.values())) == len(OUTPUTS)
