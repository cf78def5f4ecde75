# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from wheels import Wheel, wheels_in

_TEXT = "License: The text\n  of a license"


def _install(site: Path, name: str, *fields: str) -> None:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *fields, "", "License: not a field"]
    (folder / "METADATA").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("fields", "license"),
    [
        (["License-Expression: MIT OR Apache-2.0", "License: something else"], "MIT OR Apache-2.0"),
        (["License: BSD", "Classifier: License :: OSI Approved :: BSD License"], "BSD"),
        (["License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"], "MIT License"),
        ([_TEXT, "Classifier: License :: OSI Approved :: ISC License"], "ISC License"),
        ([_TEXT, "Classifier: License :: OSI Approved"], "The text"),
        (["Classifier: Topic :: Software"], ""),
    ],
)
def test_licenses(tmp_path: Path, fields: list[str], license: str) -> None:
    _install(tmp_path, "Some_Name", *fields)
    assert wheels_in(tmp_path) == [Wheel("some-name", "1.0", license, "")]


def test_digests_of_the_lock(tmp_path: Path) -> None:
    for name in ("one", "several", "unlocked"):
        _install(tmp_path, name)
    first, second = "1" * 64, "2" * 64
    lock = f"One==1.0 --hash=sha256:{first}\nseveral==1.0 --hash=sha256:{first} --hash=sha256:{second}\n"
    (tmp_path / "wheels.lock.txt").write_text(lock)
    digests = {wheel.name: wheel.sha256 for wheel in wheels_in(tmp_path)}
    assert digests == {"one": first, "several": "", "unlocked": ""}
