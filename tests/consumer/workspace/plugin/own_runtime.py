# SPDX-License-Identifier: Apache-2.0
"""A runtime of the consumer's own: one for its programs without delegates, out of parts of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delegatec.program.reader import read_program
from delegatec.verify import Interpreter


class OwnRuntime:
    """See `delegatec.verify.runtime.Runtime`."""

    name, backends = "own 1.0", ()

    def load(self, pte: str, ptd: str | None, shares_state: bool) -> OwnProgram:
        if ptd is not None or shares_state:
            raise NotImplementedError("weights are in the program, and methods share nothing")
        return OwnProgram(pte)


class OwnProgram:
    """See `delegatec.verify.runtime.LoadedProgram`."""

    def __init__(self, pte: str) -> None:
        self._methods = {method.name: Interpreter(method) for method in read_program(pte).methods}

    def run(self, method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        return self._methods[method].run(inputs)


RUNTIME = OwnRuntime()
