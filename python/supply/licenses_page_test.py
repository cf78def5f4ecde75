# SPDX-License-Identifier: Apache-2.0
"""docs/licenses.md is what the installed wheels say."""

from __future__ import annotations

from pathlib import Path

from licenses_page import licenses_page, sites_of_runfiles


def test_the_page_is_up_to_date() -> None:
    sites = sites_of_runfiles(Path.cwd().parent)
    locks = {path.name.removesuffix(".lock.txt") for path in Path("third_party/python").glob("*.lock.txt")}
    assert sites.keys() == locks
    page = Path("docs/licenses.md").read_text(encoding="utf-8")
    assert page == licenses_page(sites), "out of date: bazel run //python/supply:licenses_page"


def test_every_locked_wheel_is_listed() -> None:
    """Except setuptools in the compiler's lock, which is not installed."""
    page = Path("docs/licenses.md").read_text(encoding="utf-8")
    pins = [
        line.split(" ")[0].split("==")
        for lock in Path("third_party/python").glob("*.lock.txt")
        for line in lock.read_text(encoding="utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    ]
    assert len(pins) > 50
    missing = {name for name, version in pins if f"| {name} {version} |" not in page}
    assert missing == {"setuptools"}
