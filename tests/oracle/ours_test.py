# SPDX-License-Identifier: Apache-2.0
"""Our programs in the stock runtime, in our interpreter, and in eager mode."""

from __future__ import annotations

import io

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.edge.kernels import KERNELS
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.samples.inputs import trials
from delegatec.verify import Interpreter
from tests.oracle.models import MODELS
from tests.oracle.oracle import OracleProgram, operators

# A condition at run time is a build error so far.
SUPPORTED = [name for name in MODELS if name != "branches"]


@pytest.mark.parametrize("name", SUPPORTED)
def test_runtime_interpreter_and_eager_mode_agree(name: str) -> None:
    file = io.BytesIO()
    write_program(lower({"forward": MODELS[name]()}).emitted, file)
    exported = MODELS[name]()
    eager = exported.module()
    runtime = OracleProgram(file.getvalue())
    interpreter = Interpreter(parse_program(file.getvalue()).methods[0])
    for trial in trials(exported, seeds=4):
        expected = pytree.tree_leaves(eager(*trial.args, **trial.kwargs))
        real, ours = runtime.run(trial.leaves), interpreter.run(trial.leaves)
        assert len(real) == len(ours) == len(expected)
        for r, o, e in zip(real, ours, expected, strict=True):
            torch.testing.assert_close(r, e, atol=2e-6, rtol=1e-5)
            torch.testing.assert_close(o, r, atol=2e-6, rtol=1e-5)


def test_the_table_of_kernels_is_that_of_the_runtime() -> None:
    assert operators() == KERNELS
