# SPDX-License-Identifier: Apache-2.0
"""Measures remote execution: figures of docs/remote_execution.md.

Usage: bazel run //tests/remote:campaign -- [--folder=FOLDER] [--modules] PART...

The parts are `examples`, `upload`, `overhead`, `kill` and `cluster`; by default all. With --modules, the
clients are Bazel 7.

It prints the tables of the page; the prose there is written by hand.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nested_bazel import WITH_WORKSPACE, Generation, copy_of_the_sources, nested_bazel, with_modules
from outputs import PROGRAMS, digests, summary

from tests.remote import cluster
from tests.remote.client import Built, build, consumer
from tests.remote.cluster_figures import killed_workers, one_and_two_workers
from tests.remote.engine import Engine, missing, running
from tests.remote.failures import failures
from tests.remote.tables import described, print_table
from tests.remote.worker_image import NETWORK_LIBRARIES

_EXPORT: Final = ("//many:net",)
_PROGRAMS: Final = tuple(f"//many:net_{number}" for number in range(1, 6))
_MNEMONICS: Final = ("TorchExport", "DelegateLower")
# Events of Bazel's profile -> their column.
_PHASES: Final = {
    "MerkleTree.build(ActionInput)": "input tree, s",
    "upload missing inputs": "upload, s",
    "execute remotely": "execution, s",
}


def stored(engine: Engine) -> tuple[int, float]:
    """Returns the number of files in the server's store, and their size in MB."""
    objects = engine.folder / "cache" / "cas" / "objects"
    sizes = [path.stat().st_size for path in objects.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes) / 1e6


def generation(modules: bool, *, is_copy: bool = False) -> Generation:
    """Returns the Bazel of a client: 4.2.3, or 7 with modules; `is_copy`: for a copy of this workspace."""
    return with_modules(is_copy=is_copy) if modules else WITH_WORKSPACE


def all_examples(folder: Path, modules: bool) -> None:
    """Builds the examples on an empty cache, then by a second client in another directory."""
    rows = []
    with running(folder / "engine", libraries=NETWORK_LIBRARIES) as engine:
        remote = f"--remote_executor={engine.address}"
        for client in ("first", "second"):
            sources = copy_of_the_sources(folder / client / client)
            with nested_bazel(
                sources, folder / client / "output", generation(modules, is_copy=True)
            ) as bazel:
                built = build(bazel, ["//examples/..."], remote)
                found = summary(digests(bazel, "examples"), PROGRAMS)
            phases = [f"{built.phases.get(event, 0):.0f}" for event in _PHASES]
            rows.append((client, described(built), f"{built.seconds:.0f}", *phases, found))
        files, megabytes = stored(engine)
    print_table(("client", "processes", "all, s", *_PHASES.values(), "programs"), rows)
    print(f"\nThe store has {files} files, {megabytes:.0f} MB.")


def first_upload(folder: Path, modules: bool) -> None:
    """Measures one action on an empty cache, then others with the same inputs, also by a new Bazel server."""
    rows = []

    def row(name: str, built: Built) -> None:
        phases = [f"{built.phases.get(event, 0):.1f}" for event in _PHASES]
        rows.append((name, described(built), f"{built.seconds:.1f}", *phases))

    with (
        running(folder / "engine") as engine,
        nested_bazel(consumer(folder), folder / "output", generation(modules)) as bazel,
    ):
        remote = f"--remote_executor={engine.address}"
        row("first action, empty cache", build(bazel, _EXPORT, remote))
        files, megabytes = stored(engine)
        row("next action", build(bazel, _PROGRAMS[:1], remote))
        bazel.run("shutdown")
        row("next action, new Bazel server", build(bazel, _PROGRAMS[1:2], remote))
    print(f"\nThe store has {files} files, {megabytes:.0f} MB.")
    print_table(("build", "processes", "all, s", *_PHASES.values()), rows)


def overhead(folder: Path, modules: bool) -> None:
    """Measures four lowerings of one model, one at a time, by each strategy."""
    with (
        running(folder / "mounting") as mounting,
        running(folder / "copying", mounts=False) as copying,
        nested_bazel(consumer(folder), folder / "output", generation(modules)) as bazel,
    ):
        remote = ("--noremote_accept_cached", "--remote_executor")
        strategies = {
            "worker": (),
            "sandboxed": tuple(f"--strategy={name}=sandboxed" for name in _MNEMONICS),
            "remote, inputs mounted" if mounting.mounts else "remote": (
                *remote,
                mounting.address,
            ),
            "remote, inputs copied": (*remote, copying.address),
        }
        rows = []
        for name, flags in strategies.items():
            bazel.run("clean")
            build(bazel, _PROGRAMS[:1], *flags)
            built = build(bazel, _PROGRAMS, "--jobs=1", *flags)
            count = len(_PROGRAMS) - 1
            phases = [f"{built.phases.get(event, 0) / count:.2f}" for event in _PHASES]
            rows.append((name, described(built), f"{built.seconds / count:.2f}", *phases))
    print_table(("strategy", "processes", "per action, s", *_PHASES.values()), rows)


def kills(folder: Path, modules: bool) -> None:
    """Kills the server and actions, and prints how builds end."""
    with (
        running(folder / "engine") as engine,
        nested_bazel(consumer(folder), folder / "output", generation(modules)) as bazel,
    ):
        rows = [
            (case.killed, " ".join(case.flags), case.built.returncode, f"{case.built.seconds:.0f}")
            + (described(case.built), case.message, described(case.again))
            for case in failures(bazel, engine)
        ]
    print_table(("killed", "flags", "status", "s", "processes", "message", "the same build again"), rows)


def measure_cluster(folder: Path, modules: bool) -> None:
    """Compares two workers with one, and kills workers."""
    with (
        cluster.running_cluster(folder / "cluster", workers=2) as running_cluster,
        nested_bazel(consumer(folder), folder / "output", generation(modules)) as bazel,
    ):
        head = ("workers", "processes", "four actions, s")
        print_table(head, one_and_two_workers(bazel, running_cluster))
        print_table(("killed", "status", "processes", "s"), killed_workers(bazel, running_cluster))


_PARTS: Final[dict[str, Callable[[Path, bool], None]]] = {
    "examples": all_examples,
    "upload": first_upload,
    "overhead": overhead,
    "kill": kills,
    "cluster": measure_cluster,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="directory for several GB; by default a temporary one")
    parser.add_argument("--modules", action="store_true", help="use Bazel 7")
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], help="what to measure; by default all")
    options = parser.parse_args()
    for part in options.parts or _PARTS:
        reason = cluster.missing() if part == "cluster" else missing()
        if reason:
            print(f"\n{part}: skipped: {reason}")
            continue
        with tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True) as folder:
            _PARTS[part](Path(folder), options.modules)


if __name__ == "__main__":
    main()
