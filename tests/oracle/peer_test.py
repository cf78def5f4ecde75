# SPDX-License-Identifier: Apache-2.0
"""Our reader and interpreter on programs of other compilers, against the stock runtime."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import torch

from delegatec.delegation import BackendRegistry
from delegatec.diagnostics import DelegatecError
from delegatec.program.reader import parse_program
from delegatec.program.reader.model import Program, Tensor
from delegatec.samples.inputs import trials
from delegatec.verify import Interpreter, verify_program
from tests.oracle import peer
from tests.oracle.models import MODELS
from tests.oracle.oracle import OracleProgram


@pytest.mark.parametrize("name", MODELS)
def test_interpreter_agrees_with_the_runtime(name: str) -> None:
    exported, pte = peer.compiled(name)
    runtime = OracleProgram(pte)
    interpreter = Interpreter(parse_program(pte).methods[0])
    for trial in trials(exported, seeds=4):
        expected = runtime.run(trial.leaves)
        actual = interpreter.run(trial.leaves)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_programs_verify(name: str, tmp_path: Path) -> None:
    exported, pte = peer.compiled(name)
    path = tmp_path / "program.pte"
    path.write_bytes(pte)
    result = verify_program(path, {"forward": exported}, BackendRegistry(), atol=1e-5, rtol=1e-5)
    assert result.passed, result.table()
    assert len(result.results) == 4 * len(result.worst())


def test_a_changed_weight_does_not_verify(tmp_path: Path) -> None:
    exported, pte = peer.compiled("convolutional")
    segment = parse_program(pte).segments[0]
    damaged = bytearray(pte)
    damaged[segment.offset + 16 + 2] ^= 0x40  # an exponent bit of one weight
    path = tmp_path / "program.pte"
    path.write_bytes(damaged)
    result = verify_program(path, {"forward": exported}, BackendRegistry(), atol=1e-5, rtol=1e-5)
    assert {diagnostic.code for diagnostic in result.diagnostics} == {"DC502"}


def test_two_methods_in_one_file() -> None:
    pte = peer.two_methods()
    program = parse_program(pte)
    assert [method.name for method in program.methods] == ["encode", "forward"]
    runtime = OracleProgram(pte)
    exported, _ = peer.compiled("encoder")
    (trial, *_) = trials(exported, 0)
    (expected,) = runtime.run(trial.leaves, "encode")
    (actual,) = Interpreter(program.method("encode")).run(trial.leaves)
    torch.testing.assert_close(actual, expected, atol=2e-6, rtol=1e-5)


_INTERESTING = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def _mutations(pte: bytes, count: int, rng: random.Random) -> list[bytes]:
    """Copies with damage to the FlatBuffer: cut off, overwritten words, flipped bits, moved runs."""
    end = parse_program(pte).flatbuffer_bytes
    mutants = []
    for _ in range(count):
        data = bytearray(pte)
        kind = rng.randrange(8)
        if kind == 0:
            del data[rng.randrange(len(data)) :]
        elif kind == 1:
            at, source, length = rng.randrange(end), rng.randrange(end), rng.randrange(1, 64)
            data[at : at + length] = data[source : source + length]
        else:
            for _ in range(rng.choice((1, 1, 1, 2, 8))):
                at = rng.randrange(0, end - 8) & ~3
                match rng.randrange(3):
                    case 0:
                        value = rng.choice((*_INTERESTING, end, end - at, len(data)))
                        data[at : at + 4] = value.to_bytes(4, "little")
                    case 1:
                        near = int.from_bytes(data[at : at + 4], "little") + rng.choice((-8, -4, -1, 1, 4, 8))
                        data[at : at + 4] = (near % 2**32).to_bytes(4, "little")
                    case _:
                        data[at + rng.randrange(4)] ^= 1 << rng.randrange(8)
        mutants.append(bytes(data))
    return mutants


def _touch(program: Program) -> None:
    """Reads every byte that the program hands out."""
    for segment in program.segments:
        bytes(segment.data)
    for method in program.methods:
        for delegate in method.delegates:
            bytes(delegate.blob)
        for value in method.values:
            if isinstance(value, Tensor) and value.data is not None:
                assert len(bytes(value.data)) == value.nbytes


@pytest.mark.parametrize("name", ["convolutional", "state", "branches", "many_outputs"])
def test_damaged_files_have_a_diagnostic(name: str) -> None:
    _, pte = peer.compiled(name)
    rng = random.Random(name)
    refused = 0
    for mutant in _mutations(pte, 400, rng):
        start = time.process_time()
        try:
            _touch(parse_program(mutant))
        except DelegatecError as error:
            refused += 1
            assert all(d.code in {"DC350", "DC351", "DC352", "DC353", "DC354"} for d in error.diagnostics)
        assert time.process_time() - start < 5  # no measure of speed: it must not hang
    assert refused > 80  # the mutations are effective


def test_every_truncation_is_rejected() -> None:
    _, pte = peer.compiled("state")
    for length in range(0, len(pte), 7):
        with pytest.raises(DelegatecError):
            parse_program(pte[:length])
