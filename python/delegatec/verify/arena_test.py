# SPDX-License-Identifier: Apache-2.0
"""Tests of planned memory: it takes only the bytes that are claimed."""

from __future__ import annotations

import io
import resource
from dataclasses import replace

import pytest
import torch

from delegatec import Model, export, lower
from delegatec.diagnostics import DelegatecError
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify.arena import Arena
from delegatec.verify.interpreter import Interpreter


def test_declared_memory_is_not_taken() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    arena = Arena.of(2**36, 0xA5)
    arena.claim(2**35, 2**35 + 10)
    assert arena[2**35 : 2**35 + 3] == b"\xa5\xa5\xa5"
    assert len(arena) == 2**36
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # KiB


def test_a_program_that_declares_gigabytes_runs_without_them() -> None:
    model = Model(torch.nn.Linear(4, 2), (torch.ones(1, 4),))
    file = io.BytesIO()
    write_program(lower(export(model)).emitted, file)
    method = parse_program(file.getvalue()).method("forward")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    huge = replace(method, arena_bytes=(0, *(size + 33 * 10**8 for size in method.arena_bytes[1:])))
    (result,) = Interpreter(huge).run([torch.ones(1, 4)])
    assert torch.equal(result, Interpreter(method).run([torch.ones(1, 4)])[0])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**17  # KiB


def test_a_range_is_filled_once() -> None:
    arena = Arena.of(100, 7)
    arena.claim(10, 20)
    arena[10:12] = b"ab"
    arena.claim(0, 100)
    assert arena[8:14] == b"\7\7ab\7\7"


def test_memory_that_cannot_be_addressed_is_a_diagnostic() -> None:
    with pytest.raises(DelegatecError, match="DC505"):
        Arena.of(2**62, 1)
