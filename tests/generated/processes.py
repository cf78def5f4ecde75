# SPDX-License-Identifier: Apache-2.0
"""Runs programs in child processes: a crash or a hang ends one of them, and the next continues after it."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pickle
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import torch

from delegatec.cli.arithmetic import pin_torch
from tests.generated.outcomes import CRASH, GENERATOR, HANG, Outcome, outcomes
from tests.generated.program import Program
from tests.generated.targets import PORTABLE, TARGETS

_Job = TypeVar("_Job")

# A child process is replaced after that many programs, since torch's caches grow.
_BATCH: Final = 100
# Targets that a program is lowered for within the time limit, on a machine with other load.
_TARGETS: Final = 5
_SECONDS: Final = 240.0


def results(
    jobs: Sequence[_Job],
    program: Callable[[_Job], Program],
    targets: Sequence[str] = TARGETS,
    seconds: float = _SECONDS,
) -> Iterator[tuple[_Job, list[Outcome]]]:
    """Yields the outcomes of each job, in order.

    Args:
        jobs: the sources of the programs, such as seeds.
        program: makes the program of a job, in the child process.
        targets: as in `outcomes`.
        seconds: how long a program may take on few targets; on more of them, as much more.
    """
    done = 0
    while done < len(jobs):
        batch = jobs[done : done + _BATCH]
        for result in _batch(batch, program, targets, seconds * max(1, len(targets) / _TARGETS)):
            yield batch[0], result
            batch = batch[1:]
            done += 1


def last_of(values: Iterator[_Job], seconds: int) -> list[_Job]:
    """Iterates in a child process, which a crash may end.

    Args:
        values: what to iterate over; values can be pickled.
        seconds: after which the process is ended.

    Returns:
        The last value, or nothing.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        faulthandler.disable()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        _be_silent()
        try:
            with os.fdopen(writing, "wb") as file:
                for value in values:
                    pickle.dump(value, file)
                    file.flush()
        finally:
            os._exit(0)
    os.close(writing)
    last: list[_Job] = []
    with os.fdopen(reading, "rb") as file, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            last = [pickle.load(file)]  # noqa: S301 - from our own process
    os.waitpid(child, 0)
    return last


def _be_silent() -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def _batch(
    jobs: Sequence[_Job], program: Callable[[_Job], Program], targets: Sequence[str], seconds: float
) -> Iterator[list[Outcome]]:
    """Yields outcomes until the process ends: if there are fewer than jobs, the last is a crash or a hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(jobs, program, targets, writing)
    os.close(writing)
    stage, count = GENERATOR, 0
    pending = b""
    try:
        while count < len(jobs):
            ready, _, _ = select.select([reading], [], [], seconds)
            data = os.read(reading, 1 << 16) if ready else b""
            if not data:
                if not ready:
                    os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                child = 0
                kind = GENERATOR if stage == GENERATOR else HANG if not ready else CRASH
                yield [Outcome(PORTABLE, kind, f"in {stage}")]
                return
            pending += data
            *lines, pending = pending.split(b"\n")
            for line in lines:
                message = json.loads(line)
                if isinstance(message, str):
                    stage = message
                else:
                    count += 1
                    stage = GENERATOR
                    yield [Outcome(*each) for each in message]
    finally:
        os.close(reading)
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _work(
    jobs: Sequence[_Job], program: Callable[[_Job], Program], targets: Sequence[str], writing: int
) -> None:
    faulthandler.disable()
    _be_silent()
    pin_torch()  # as the compiler's command: oneDNN's kernels spread NaN
    torch.backends.nnpack.set_flags(False)  # sums of products by Fourier transforms, which are not exact

    def send(message: object) -> None:
        os.write(writing, json.dumps(message).encode() + b"\n")

    try:
        for job in jobs:
            send(GENERATOR)
            made = program(job)
            send("lowering")
            send([[o.target, o.kind, o.text, o.delegates] for o in outcomes(made, targets)])
    finally:
        os._exit(0)
