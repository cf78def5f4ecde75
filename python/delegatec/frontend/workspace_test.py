# SPDX-License-Identifier: Apache-2.0
"""Tests of workspace."""

from __future__ import annotations

import pytest

from delegatec.diagnostics import SourceLocation
from delegatec.frontend.workspace import Workspace, preferred

WORKSPACE = Workspace("/sandbox/7/execroot", ("/sandbox/7/execroot/lib", "/elsewhere/lib"))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/sandbox/7/execroot/models/net.py", "models/net.py"),
        ("/sandbox/7/execroot/lib/layers.py", "lib/layers.py"),
        ("/sandbox/7/execroot/bazel-out/k8-opt/bin/models/made.py", "models/made.py"),
        (
            "/sandbox/7/execroot/external/pip/site-packages/transformers/m.py",
            "site-packages/transformers/m.py",
        ),
        ("/venv/lib/python3.11/site-packages/transformers/m.py", "site-packages/transformers/m.py"),
        ("/usr/lib/python3/dist-packages/timm/m.py", "dist-packages/timm/m.py"),
        ("/elsewhere/lib/pkg/layers.py", "pkg/layers.py"),
        ("/home/someone/net.py", "net.py"),
    ],
)
def test_names_do_not_depend_on_the_location(path: str, name: str) -> None:
    assert WORKSPACE.relative(path) == name


def frame(path: str, line: int, function: str = "forward") -> str:
    return f'  File "{path}", line {line}, in {function}\n    code {line}\n'


def test_stack_trace_keeps_the_users_and_the_librarys_frames() -> None:
    trace = (
        frame("/sandbox/7/execroot/models/net.py", 3)
        + frame("/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 10, "_call_impl")
        + frame("/venv/lib/python3.11/site-packages/transformers/m.py", 5)
        + frame("/venv/lib/python3.11/site-packages/torch/nn/functional.py", 7, "relu")
    )
    expected = (
        '  File "models/net.py", line 3, in forward\n    code 3\n'
        '  File "site-packages/transformers/m.py", line 5, in forward\n    code 5'
    )
    assert WORKSPACE.stack_trace(trace) == expected
    assert WORKSPACE.stack_trace("") == ""


def test_preferred_frame() -> None:
    own = [SourceLocation("net.py", 1), SourceLocation("layers.py", 2)]
    library = SourceLocation("site-packages/transformers/m.py", 3)
    assert preferred([]) is None
    assert preferred(own) == own[1]
    assert preferred([library]) == library
    found = preferred([*own, library])
    assert found is not None
    assert (str(found), found.via) == ("layers.py:2", "site-packages/transformers/m.py:3")


def test_frames_of_an_error() -> None:
    try:
        int("no number")
    except ValueError as error:
        frames = Workspace.at(".").frames(error.__traceback__)
    assert frames == []  # The compiler's own files are not the user's: this test is one of them.
