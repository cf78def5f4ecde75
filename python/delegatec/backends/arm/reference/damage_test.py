# SPDX-License-Identifier: Apache-2.0
"""Damaged blobs: a result, or a diagnostic; never another exception."""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._higher_order_ops import while_loop

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.reference import TosaReferenceExecutor, executor
from delegatec.backends.arm.testing import compile_module
from delegatec.backends.common.testing import X, floats
from delegatec.diagnostics import DelegatecError


class Images(torch.nn.Module):
    """A convolution, pools, padding, concatenation, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        h = torch.cat([h, torch.nn.functional.pad(h[:, :, 1:], (0, 0, 0, 1))], 1)
        h = torch.nn.functional.interpolate(h, scale_factor=2, mode="bilinear").mean((2, 3))
        return torch.softmax(self.last(h), 1).argmax(1)


class Elements(torch.nn.Module):
    """Functions, comparisons, a selection, gathers, a reduction and moves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.where(x > 0, x.exp(), x.sigmoid())[:, :, [2, 0, 1]]
        return (h.flip(1).repeat(1, 2, 1).sum(1) / 3.0).tanh()


class Branches(torch.nn.Module):
    """A condition and a loop."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))
        loop: Any = while_loop
        last: torch.Tensor = loop(lambda i, h: i < 3, lambda i, h: (i + 1, h.tanh()), (torch.tensor(0), h))[1]
        return last


def _blob(module: torch.nn.Module, x: torch.Tensor) -> bytes:
    (blob,) = compile_module(module, (x,), specification="TOSA-1.0+FP+INT+cf").blobs()
    return blob


_CASES: Final[list[tuple[torch.nn.Module, torch.Tensor]]] = [
    (Images(), floats(1, 3, 8, 8)),
    (Elements(), X),
    (Branches(), X),
]
_BLOBS: Final = [(_blob(module, x), [x]) for module, x in _CASES]


def _outcome(data: Any, inputs: list[torch.Tensor]) -> str:
    """Returns the code of the error, or nothing."""
    try:
        with patch.object(executor, "_MOST_ITERATIONS", 10):
            TosaReferenceExecutor(read_blob(memoryview(data)))(inputs)
    except DelegatecError as error:
        (code,) = {diagnostic.code for diagnostic in error.diagnostics}
        return code
    return ""


def test_complete_files_run() -> None:
    assert [_outcome(data, inputs) for data, inputs in _BLOBS] == [""] * 3


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_changed_bytes(data: st.DataObject) -> None:
    original, inputs = _BLOBS[data.draw(st.integers(0, len(_BLOBS) - 1))]
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(8, len(damaged) - 1))
        damaged[position] = data.draw(
            st.sampled_from([0, 1, 2, 3, 7, 127, 128, 254, 255]) | st.integers(0, 255)
        )
    assert _outcome(bytes(damaged), inputs) in ("", "DC407", "DC408")


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_truncated(data: st.DataObject) -> None:
    original, inputs = _BLOBS[data.draw(st.integers(0, len(_BLOBS) - 1))]
    end = data.draw(st.integers(0, len(original) - 1))
    assert _outcome(original[:end], inputs) in ("", "DC407", "DC408")


def test_inputs_of_another_graph() -> None:
    (one, _), (_, other), _ = _BLOBS
    assert _outcome(one, other) == "DC408"
    assert _outcome(one, []) == "DC408"
