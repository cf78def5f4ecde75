# SPDX-License-Identifier: Apache-2.0
"""Runs pytest for one test target, with Bazel's shards, filter, temporary directory, report and coverage."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Set before numpy or torch is imported: Bazel assigns one core to a test.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import materialized_operators
import pytest
import rare_collections
import record_options
import sampled_cases
import verified_passes

# A busy machine is not a fault.
hypothesis.settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any_machine")


class Shard:
    """A pytest plugin that keeps every n-th test case."""

    def __init__(self, index: int, total: int) -> None:
        self._index = index
        self._total = total

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Selects the cases by the order of their names, which is the same in all shards."""
        items.sort(key=lambda item: item.nodeid)
        others = [item for number, item in enumerate(items) if number % self._total != self._index]
        items[:] = items[self._index :: self._total]
        config.hook.pytest_deselected(items=others)


@contextlib.contextmanager
def coverage_of_sources() -> Iterator[None]:
    """Writes an lcov file of the sources that Bazel lists, under `bazel coverage`."""
    folder = os.environ.get("COVERAGE_DIR")
    if not folder or os.environ.get("COVERAGE") != "1":
        yield
        return
    import coverage

    workspace = Path(os.environ["TEST_SRCDIR"]) / os.environ["TEST_WORKSPACE"]
    listed = Path(os.environ["COVERAGE_MANIFEST"]).read_text().split()
    sources = {str((workspace / name).resolve()): name for name in listed if name.endswith(".py")}
    measured = coverage.Coverage(
        data_file=str(Path(os.environ["TEST_TMPDIR"]) / "coverage"),
        include=list(sources) or [os.devnull],
        config_file=False,
    )
    measured.start()
    try:
        yield
    finally:
        measured.stop()
        report = Path(folder) / "pytest.dat"
        with contextlib.suppress(coverage.exceptions.NoDataError):
            measured.lcov_report(outfile=str(report))
            report.write_text("".join(relative(line, sources) for line in report.read_text().splitlines()))


def relative(line: str, sources: dict[str, str]) -> str:
    """Returns a line of an lcov file with the source's path in the workspace."""
    if line.startswith("SF:"):
        line = "SF:" + sources.get(str(Path(line[3:]).resolve()), line[3:])
    return line + "\n"


def arguments_from_bazel() -> list[str]:
    """Returns pytest's arguments for Bazel's environment variables."""
    arguments = []
    if report := os.environ.get("XML_OUTPUT_FILE"):
        arguments.append(f"--junitxml={report}")
    if folder := os.environ.get("TEST_TMPDIR"):
        arguments.append(f"--basetemp={folder}/pytest")
    if names := os.environ.get("TESTBRIDGE_TEST_ONLY"):
        arguments += ["-k", names]
    return arguments


def shards_from_bazel() -> list[object]:
    """Returns the plugin for this process's shard, if the test is sharded."""
    total = int(os.environ.get("TEST_TOTAL_SHARDS", "1"))
    if total == 1:
        return []
    if status := os.environ.get("TEST_SHARD_STATUS_FILE"):
        # Tells Bazel that the test supports sharding.
        Path(status).touch()
    return [Shard(int(os.environ["TEST_SHARD_INDEX"]), total)]


def main(files: list[str]) -> int:
    """Runs the test files and returns pytest's exit status."""
    if not files:
        # Pytest would collect tests in the current directory, including the wheels.
        print("this test has no files to run", file=sys.stderr)
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    # As in the compiler's actions. Python takes bytecode as current if the source has the same size and the
    # same second of modification: a test that writes a module twice would import the first one again.
    sys.dont_write_bytecode = True
    shards = shards_from_bazel()
    with coverage_of_sources():
        status = pytest.main(
            ["-p", "no:cacheprovider", "--import-mode=importlib", "-q", "-ra", "--strict-markers"]
            + arguments_from_bazel()
            + files,
            plugins=[
                *(materialized_operators, rare_collections, record_options, sampled_cases, verified_passes),
                *shards,
            ],
        )
    # A shard may be empty; a test without any case is an error.
    if status == pytest.ExitCode.NO_TESTS_COLLECTED and shards:
        return 0
    return int(status)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Skips torch's cleanup, which takes up to a second.
    os._exit(code)
