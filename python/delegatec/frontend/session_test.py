# SPDX-License-Identifier: Apache-2.0
"""The running export."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from delegatec.frontend.session import Session, running
from delegatec.frontend.workspace import Workspace


@pytest.mark.parametrize("chosen", [None, "0"])
def test_libraries_do_not_wait_for_a_network(
    chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", chosen or "")
    if chosen is None:
        monkeypatch.delenv("HF_HUB_OFFLINE")
    with running(Session(Workspace.at(str(tmp_path), ()), "net.py", ())):
        assert os.environ["HF_HUB_OFFLINE"] == (chosen or "1")
