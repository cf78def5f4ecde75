# SPDX-License-Identifier: Apache-2.0
"""Behavior of a cluster with one and two workers, and when a worker is killed while it runs an action."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from nested_bazel import NestedBazel

from tests.remote.client import Built, attempt, build
from tests.remote.cluster import Cluster
from tests.remote.failures import TARGET, wait_for_action
from tests.remote.tables import described

_LOWERINGS: Final = tuple(f"//many:net_{number}" for number in range(2, 6))
_ROUNDS: Final = 2
_WITHOUT_WORKERS_SECONDS: Final = 40


def _remote(cluster: Cluster) -> tuple[str, ...]:
    # The first upload takes minutes on a busy machine.
    return f"--remote_executor={cluster.address}", "--remote_timeout=600", "--jobs=4"


def _lower(bazel: NestedBazel, cluster: Cluster) -> Built:
    """Runs four lowerings, whose export is cached."""
    bazel.run("clean")
    build(bazel, [TARGET], *_remote(cluster))
    return build(bazel, _LOWERINGS, *_remote(cluster), "--noremote_accept_cached")


def one_and_two_workers(bazel: NestedBazel, cluster: Cluster) -> Iterator[Sequence[object]]:
    """Yields rows of a table: four lowerings by both workers and by one, in turns."""
    one, other = cluster.workers
    one.start()
    other.start()
    yield "2, empty stores", described(built := _lower(bazel, cluster)), f"{built.seconds:.0f}"
    for _ in range(_ROUNDS):
        other.stop()
        yield "1", described(built := _lower(bazel, cluster)), f"{built.seconds:.0f}"
        other.start()
        yield "2", described(built := _lower(bazel, cluster)), f"{built.seconds:.0f}"


def _row(killed: str, building: Future[Built]) -> Sequence[object]:
    built = building.result()
    return killed, built.returncode, described(built), f"{built.seconds:.0f}"


def killed_workers(bazel: NestedBazel, cluster: Cluster) -> Iterator[Sequence[object]]:
    """Yields rows of a table: one of two workers is killed, then the only one, with a new one later."""
    with ThreadPoolExecutor(1) as pool:
        bazel.run("clean")
        building = pool.submit(attempt, bazel, [TARGET], *_remote(cluster), "--noremote_accept_cached")
        dead, _ = wait_for_action(*cluster.workers)
        dead.kill()
        yield _row("one of two workers", building)
        (alive,) = [worker for worker in cluster.workers if worker is not dead]
        bazel.run("clean")
        building = pool.submit(attempt, bazel, [TARGET], *_remote(cluster), "--noremote_accept_cached")
        wait_for_action(alive)
        alive.kill()
        time.sleep(_WITHOUT_WORKERS_SECONDS)
        waits = "the build waits" if building.running() else "the build has ended"
        dead.start()
        yield _row(
            f"the only worker; {waits} after {_WITHOUT_WORKERS_SECONDS} s, when another one starts", building
        )
