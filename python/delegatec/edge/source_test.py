# SPDX-License-Identifier: Apache-2.0
"""The frame that a user is shown."""

from __future__ import annotations

import pytest
import torch

from delegatec.diagnostics import SourceLocation
from delegatec.edge.source import location_of
from delegatec.edge.testing import edge


def _frame(file: str, line: int, function: str, text: str) -> str:
    return f'  File "{file}", line {line}, in {function}\n    {text}\n'


PACKAGES = "/venv/lib/python3.11/site-packages"
OWN = _frame("models/net.py", 12, "forward", "y = self.encoder(x)")
DEEPER = _frame("models/layers.py", 3, "gate", "return torch.sigmoid(x) * x")
LIBRARY = _frame(f"{PACKAGES}/transformers/bert.py", 99, "forward", "x = x + y")
TORCH = _frame(f"{PACKAGES}/torch/nn/linear.py", 7, "forward", "return F.linear(x)")


@pytest.mark.parametrize("trace", [None, "", "no frame in here", _frame("net.py", 10**9, "forward", "")])
def test_without_frames(trace: str | None) -> None:
    assert location_of(trace) is None


def test_the_innermost_frame_of_the_users_own() -> None:
    gate = SourceLocation("models/layers.py", 3, "gate", "return torch.sigmoid(x) * x")
    assert location_of(OWN + DEEPER) == gate
    assert location_of(OWN + DEEPER + TORCH) == gate


def test_a_library_is_named_with_the_users_line() -> None:
    location = location_of(OWN + LIBRARY + TORCH)
    assert location == SourceLocation(
        *("models/net.py", 12, "forward", "y = self.encoder(x)", "site-packages/transformers/bert.py:99")
    )


def test_only_a_library() -> None:
    location = location_of(LIBRARY + TORCH)
    assert location == SourceLocation("site-packages/transformers/bert.py", 99, "forward", "x = x + y")
    assert location_of(TORCH) is None


def test_the_users_frame_below_a_library() -> None:
    """A module of the user that a library calls."""
    assert location_of(LIBRARY + DEEPER) == SourceLocation(
        "models/layers.py", 3, "gate", "return torch.sigmoid(x) * x"
    )


def test_frames_without_text() -> None:
    location = location_of('  File "a.py", line 1, in forward\n  File "b.py", line 2, in f\n')
    assert location == SourceLocation("b.py", 2, "f", "")


def test_debian_names_its_packages_otherwise() -> None:
    trace = '  File "/usr/lib/python3/dist-packages/timm/vit.py", line 5, in forward\n    x\n'
    assert str(location_of(trace)) == "dist-packages/timm/vit.py:5"


class Net(torch.nn.Module):
    """Has one line that matters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)


def test_nodes_have_their_line() -> None:
    (node,) = (n for n in edge(Net(), torch.ones(2)).graph.nodes if n.op == "call_function")
    source = node.meta["source"]
    assert source.function == "forward" and source.text == "return torch.tanh(x)"
