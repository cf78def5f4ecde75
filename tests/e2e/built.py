# SPDX-License-Identifier: Apache-2.0
"""Built programs and their properties, for the tests of this directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from runfiles import Runfiles

from delegatec.backends import builtin_backends
from delegatec.program.reader import read_program
from delegatec.program.reader.model import DelegateCall, KernelCall
from delegatec.verify.interpreter import Interpreter
from tests.oracle.oracle import OracleProgram


def built(path: str) -> Path:
    """The file that a target of this workspace wrote.

    Args:
        path: relative to the workspace, such as "examples/digits/digits_portable.pte".
    """
    runfiles = Runfiles.Create()
    location = runfiles.Rlocation(f"rules_delegate/{path}")
    assert location and Path(location).exists(), f"{path} is not among the data of this test"
    return Path(location)


def manifest(path: str) -> dict[str, Any]:
    """A built manifest."""
    return json.loads(built(path).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Calls:
    """Returns the instructions of a method, in order.

    Attributes:
        kernels: name of the runtime's kernel, for each call of one.
        delegates: id of the backend, for each call of a delegate.
    """

    kernels: tuple[str, ...]
    delegates: tuple[str, ...]


def calls(path: str) -> Calls:
    """The calls of the only method of a built program, read off the file."""
    (method,) = read_program(built(path)).methods
    (chain,) = method.chains
    instructions = chain.instructions
    return Calls(
        kernels=tuple(
            method.operators[each.operator] for each in instructions if isinstance(each, KernelCall)
        ),
        delegates=tuple(
            method.delegates[each.delegate].id for each in instructions if isinstance(each, DelegateCall)
        ),
    )


class Real:
    """A built program in the stock runtime."""

    def __init__(self, path: str) -> None:
        self._program = OracleProgram(built(path))

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._program.run(inputs)


class Simulated:
    """A built program on this host, its delegates by reference executors, from the blobs alone."""

    def __init__(self, path: str) -> None:
        program = read_program(built(path))
        (method,) = program.methods
        self._interpreter = Interpreter(method, builtin_backends(), named_data=program.named_bytes())

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._interpreter.run(inputs)


def largest_difference(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest absolute difference of any element."""
    assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in expected]
    return max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
