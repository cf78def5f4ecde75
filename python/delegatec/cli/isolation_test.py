# SPDX-License-Identifier: Apache-2.0
"""A child that left the network reaches nothing, and still writes files."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from delegatec.cli.isolation import leave_network

LEFT, FORBIDDEN, REACHED, UNWRITTEN = range(4)


def _in_child(port: int, output: Path) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = UNWRITTEN
    try:
        if not leave_network():
            code = FORBIDDEN
        else:
            output.write_text("written")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5)
                code = REACHED
            except OSError:
                code = LEFT
    finally:
        os._exit(code)


def test_not_even_this_host_is_reached(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = _in_child(server.getsockname()[1], output)
    if code == FORBIDDEN:
        pytest.skip("this host forbids namespaces")
    assert code == LEFT
    assert output.read_text() == "written" and output.stat().st_uid == os.getuid()
