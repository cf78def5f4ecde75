# SPDX-License-Identifier: Apache-2.0
"""A process that computes outcomes of samples: a kernel that crashes ends only this process."""

from __future__ import annotations

import faulthandler
import json
import os
from collections.abc import Mapping
from typing import Any, NoReturn, Self

import torch

from tests.oracle.sample_outcome import Outcome, outcomes

_END = "end"


class SampleProcess:
    """A forked process, replaced by another one after a crash.

    It serves many operators, since torch and the compiler fill their caches with the first calls: a process
    for each operator would spend three quarters of its time there.
    """

    def __init__(self, operators: Mapping[str, Any]) -> None:
        """Keeps the operators; the process starts with the first request.

        Args:
            operators: name -> OpInfo.
        """
        self._operators = operators
        self._child = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._child:
            self._stop()

    def outcomes(self, name: str, dtype: torch.dtype, most: int) -> list[Outcome]:
        """Returns the outcomes of some samples of an operator; the last is "wrong" if the process ends.

        A crash is reported only if a new process repeats it: an earlier operator may have damaged the memory.

        Args:
            name: of the operator.
            dtype: of the samples.
            most: how many.
        """
        is_new = not self._child
        found, status = self._answer(name, dtype, most)
        if status and not is_new:
            found, status = self._answer(name, dtype, most)
        return [*found, Outcome("wrong", f"the process ended with status {status}")] if status else found

    def _answer(self, name: str, dtype: torch.dtype, most: int) -> tuple[list[Outcome], int]:
        """Returns the answers of a process, and its status if it ended before the last outcome."""
        if not self._child:
            self._start()
        self._requests.write(json.dumps([name, str(dtype).removeprefix("torch."), most]) + "\n")
        self._requests.flush()
        found = []
        for line in self._answers:
            answer = json.loads(line)
            if answer == _END:
                return found, 0
            found.append(Outcome(*answer))
        return found, self._stop() or 1

    def _start(self) -> None:
        request, self_request = os.pipe()
        self_answer, answer = os.pipe()
        self._child = os.fork()
        if not self._child:
            os.close(self_request)
            os.close(self_answer)
            _serve(self._operators, request, answer)
        os.close(request)
        os.close(answer)
        self._requests = os.fdopen(self_request, "w", encoding="utf-8")
        self._answers = os.fdopen(self_answer, encoding="utf-8")

    def _stop(self) -> int:
        """Ends the process and returns its status."""
        self._requests.close()
        self._answers.close()
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        return status


def _serve(operators: Mapping[str, Any], request: int, answer: int) -> NoReturn:
    """Answers requests, a line each, until there are no more."""
    status = 1
    try:
        faulthandler.disable()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        with (
            os.fdopen(request, encoding="utf-8") as requests,
            os.fdopen(answer, "w", encoding="utf-8") as answers,
        ):
            for line in requests:
                name, dtype, most = json.loads(line)
                for outcome in outcomes(operators[name], getattr(torch, dtype), most):
                    print(json.dumps([outcome.kind, outcome.text]), file=answers, flush=True)
                print(json.dumps(_END), file=answers, flush=True)
        status = 0
    finally:
        os._exit(status)
