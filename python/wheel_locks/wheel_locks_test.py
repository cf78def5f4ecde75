# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from wheel_locks import INSTALLED_LOCK, locked_digests

_ONE = "1" * 64
_TWO = "2" * 64


def test_digests_of_wheels_with_one_hash(tmp_path: Path) -> None:
    assert locked_digests(tmp_path) == {}
    (tmp_path / INSTALLED_LOCK).write_text(
        "# a comment\n"
        f"Some.Name_x==1.0+cpu --hash=sha256:{_ONE}\n"
        f"several==2.0 --hash=sha256:{_ONE} --hash=sha256:{_TWO}\n"
        "unlocked==3.0\n"
        f"short==4.0 --hash=sha256:{_ONE[1:]}\n"
    )
    assert locked_digests(tmp_path) == {("some-name-x", "1.0+cpu"): _ONE}
