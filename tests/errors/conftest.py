# SPDX-License-Identifier: Apache-2.0
"""The fixture of these tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as the command line does, before torch is imported

pytest.register_assert_rewrite("problem")
from workspace import Workspace, make_workspace  # noqa: E402 - after the rewrite is registered


@pytest.fixture
def workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Workspace:
    """A workspace; its root is the working directory of the test."""
    make_workspace(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Workspace(tmp_path, capfd)
