# SPDX-License-Identifier: Apache-2.0
"""Two clients share an HTTP cache in nginx; the second one finds all of it, and can do without."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nginx
import pytest
from cached_package import ALL, built, write_package
from nested_bazel import NestedBazel, copy_of_the_sources, nested_bazel, source_root


@pytest.fixture
def server(tmp_path: Path) -> Iterator[nginx.Server]:
    """An nginx with an empty cache."""
    folder = tmp_path / "server"
    folder.mkdir()
    try:
        path = nginx.program(folder)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    with nginx.running(path, folder, (source_root() / "docs/caching.md").read_text()) as server:
        yield server


def _client(folder: Path) -> NestedBazel:
    workspace = copy_of_the_sources(folder / "workspace")
    write_package(workspace)
    return NestedBazel(workspace, folder / "output")


def _kill_after_the_next_request(server: nginx.Server) -> None:
    before = len(server.requests("GET"))
    while server.runs() and len(server.requests("GET")) == before:
        time.sleep(0.05)
    server.kill()


def test_clients_share_a_cache_and_survive_its_end(server: nginx.Server, tmp_path: Path) -> None:
    flag = f"--remote_cache={server.address}"
    first = _client(tmp_path / "one")
    with nested_bazel(first.workspace, first.output_user_root) as bazel:
        ran = built(bazel, flag)
    assert {each.action for each in ran} == ALL
    assert not any(each.found for each in ran)
    stored = server.requests("PUT")
    assert stored
    assert set(stored) <= {201, 204}

    second = _client(tmp_path / "two" / "elsewhere")
    with nested_bazel(second.workspace, second.output_user_root) as bazel:
        found = built(bazel, flag)
        assert {each.action for each in found} == ALL
        assert [each.action for each in found if not each.found] == []

        # The server dies during a build after an edit, and is missing from the next one.
        for factor in (3, 4):
            model = second.workspace / "cached/net.py"
            model.write_text(model.read_text().replace(f"x * {factor - 1}", f"x * {factor}"))
            killer = threading.Thread(target=_kill_after_the_next_request, args=(server,))
            killer.start()
            alone = built(bazel, flag)
            killer.join(timeout=60)
            assert not killer.is_alive(), "the build sent no request"
            assert {each.action for each in alone} == ALL
            assert not any(each.found for each in alone)
