# SPDX-License-Identifier: Apache-2.0
"""A delegate's inputs are found without its help: views that nothing sets, results in dead memory."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
import torch

from delegatec.delegation import BackendRegistry, to_backend
from delegatec.delegation.testing import EagerBackend, SupportsAllBut
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.testing import export
from delegatec.program import emit, write_program
from delegatec.program.reader import parse_program
from delegatec.verify.delegate_inputs import run_delegate
from delegatec.verify.interpreter import Interpreter

aten = torch.ops.aten


class Views(torch.nn.Module):
    """Delegates use views of computed values, alone, and with others that are used again."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.sin(x)
        z = torch.relu(y.view(4, 2)) + 1
        w = torch.sin(z).view(8)
        return torch.relu(w) * z.view(8), torch.sin(w), torch.relu(torch.sin(z).unsqueeze(0))


def test_views_are_inputs() -> None:
    x = torch.randn(2, 4)
    registry = BackendRegistry([EagerBackend()])
    program = to_edge(export(Views(), x))
    left = (aten.sin.default, aten.view_copy.default, aten.view.default, aten.unsqueeze.default)
    report = to_backend(program, SupportsAllBut(*left), registry=registry).report
    assert len(report.delegates) >= 2
    file = io.BytesIO()
    write_program(emit({"forward": program}), file)
    interpreter = Interpreter(parse_program(file.getvalue()).methods[0], registry)
    for value in (x, x + 1):
        for actual, expected in zip(interpreter.run([value]), Views()(value), strict=True):
            torch.testing.assert_close(actual, expected)


def _two_to_one(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    one, other = inputs
    return [one + other]


def test_the_number_that_fits_is_used() -> None:
    values = [torch.tensor(1), torch.tensor(2)]  # and none yet for the third, the output
    count, (output,) = run_delegate(_two_to_one, range(3), values.__getitem__, range(4))
    assert (count, output) == (2, torch.tensor(3))


def test_if_no_number_fits_the_first_error_is_raised() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        run_delegate(_two_to_one, range(1), torch.tensor, range(1, 2))
    with pytest.raises(DelegatecError, match="returns 2 outputs; the program expects 1"):
        run_delegate(lambda _: [torch.tensor(0)] * 2, range(2), torch.tensor, range(1, 2))
