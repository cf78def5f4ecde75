# SPDX-License-Identifier: Apache-2.0
"""Programs of a consumer's workspace by remote execution: on a bare worker, cached, with the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from nested_bazel import nested_bazel
from outputs import digests

from tests.remote.client import Built, build, consumer
from tests.remote.engine import missing, running

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no remote execution server: {missing()}")

# One export and two lowerings.
TARGETS = ("//model:net_mps", "//model:net_portable")
OUTPUTS = ("model/net.pt2", "model/net_mps.pte", "model/net_portable.pte")


# It runs on the client, since it needs more than a bare worker has.
TEST = "//model:net_mps_test"


@dataclass(frozen=True)
class Results:
    """Name of a build -> what it did, and the SHA-256 of its outputs."""

    builds: dict[str, Built]
    digests: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Builds of two clients, each with its own directory; one server, which is killed in between; a test."""
    builds, outputs = {}, {}
    with running(tmp_path_factory.mktemp("engine") / "files") as engine:
        remote = f"--remote_executor={engine.address}"
        one = tmp_path_factory.mktemp("one")
        with nested_bazel(consumer(one), one / "output") as bazel:
            builds["empty cache"] = build(bazel, TARGETS, remote)
            outputs["empty cache"] = digests(bazel)
            bazel.run("clean")
            builds["local"] = build(bazel, TARGETS)
            outputs["local"] = digests(bazel)
        other = tmp_path_factory.mktemp("other") / "deeper"
        with nested_bazel(consumer(other), other / "output") as bazel:
            builds["second client"] = build(bazel, TARGETS, remote)
            outputs["second client"] = digests(bazel)
            bazel.run("clean")
            engine.kill()
            engine.start()
            builds["killed server"] = build(bazel, TARGETS, remote)
            bazel.run("test", remote, TEST)
    return Results(builds, outputs)


def test_every_action_runs_on_a_bare_worker(results: Results) -> None:
    processes = results.builds["empty cache"].processes
    assert set(processes) == {"remote"}
    assert processes["remote"] >= len(OUTPUTS)


def test_a_second_client_runs_nothing(results: Results) -> None:
    expected = {"remote cache hit": results.builds["empty cache"].processes["remote"]}
    assert results.builds["second client"].processes == expected


def test_the_cache_survives_a_killed_server(results: Results) -> None:
    assert results.builds["killed server"].processes == results.builds["second client"].processes


def test_the_same_bytes_as_a_local_build(results: Results) -> None:
    local = results.builds["local"].processes
    assert local and not any("remote" in kind for kind in local)
    assert set(OUTPUTS) <= results.digests["local"].keys()
    assert results.digests["local"] == results.digests["empty cache"] == results.digests["second client"]
