# SPDX-License-Identifier: Apache-2.0
"""Output files are whole or not there, and go by the name that the user gave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from delegatec.frontend.files import replacing


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(ValueError), replacing(str(path)) as file:
        file.write(b"half")
        raise ValueError
    assert path.read_bytes() == b"old"
    with replacing(str(path)) as file:
        file.write(b"new")
    assert [found.name for found in tmp_path.iterdir()] == ["out"] and path.read_bytes() == b"new"


def test_an_error_names_the_path_of_the_user(tmp_path: Path) -> None:
    path = str(tmp_path / "no such folder" / "out")
    with pytest.raises(FileNotFoundError) as caught, replacing(path):
        pass
    assert caught.value.filename == path
