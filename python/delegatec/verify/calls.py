# SPDX-License-Identifier: Apache-2.0
"""Calls of a program in each executor, compared with the results of a model for the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import torch

from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.draws import Drawn
from delegatec.verify.executors import Executor
from delegatec.verify.outputs import EXPORTED, Call, Outputs

_Value = TypeVar("_Value")

Expected = Callable[[], tuple[Sequence[tuple[str, Any]], Sequence[Any]]]
"""Returns the results of the model, as leaves with their paths, and its inputs afterwards."""


class Calls:
    """Calls in a row.

    Args:
        executors: run the program; one that fails makes no further call.
        outputs: receives the results.
        oracle: the reference of the comparison.
    """

    def __init__(self, executors: Sequence[Executor], outputs: Outputs, oracle: str = EXPORTED) -> None:
        self._running = [*executors]
        self._outputs = outputs
        self._oracle = oracle

    def compare(self, method: str, trial: str, inputs: Sequence[Any], count: int, expected: Expected) -> bool:
        """Makes one call in each executor, and compares outputs, and the inputs that it writes to.

        Args:
            method: the method.
            trial: name of the inputs.
            inputs: the arguments, flat.
            count: number of the program's inputs.
            expected: computes the expected results, if a call succeeds.

        Returns:
            Whether an executor can make another call.
        """
        before = matching(inputs, count, f"inputs of method {method!r}")
        ran: list[tuple[Executor, list[Any], list[Any]]] = []
        for executor in [*self._running]:
            passed = [value.clone() if isinstance(value, torch.Tensor) else value for value in before]
            try:
                ran.append((executor, passed, executor.run(method, passed)))
            except DelegatecError as error:
                self._outputs.diagnostics.extend(error.diagnostics)
                self._running.remove(executor)
        if not ran:
            return False
        wanted, written = expected()
        after = matching(written, count, "inputs")
        drawn = self._outputs.drawn.get(method, Drawn())
        random_paths = {path for index, (path, _) in enumerate(wanted) if index in drawn.outputs}
        for executor, passed, actual in ran:
            call = Call(method, trial, executor.name, self._oracle)
            values = matching(wanted, len(actual), f"outputs of method {method!r}")
            for index, (a, (path, e)) in enumerate(zip(actual, values, strict=True)):
                self._outputs.compare(call, index, path, a, e, path in random_paths)
            for index, (old, a, e) in enumerate(zip(before, passed, after, strict=True)):
                # writes to inputs, by the program or the model
                if isinstance(old, torch.Tensor) and not (_is_same(old, a) and _is_same(old, e)):
                    is_random = index in drawn.inputs
                    self._outputs.compare(call, len(values) + index, f"(input {index})", a, e, is_random)
        return True


def matching(values: Sequence[_Value], count: int, what: str) -> list[_Value]:
    """Returns the values that a program takes or returns: all, or just the tensors if it omits constants.

    Args:
        values: the model's; may be pairs with their name.
        count: number of the program's.
        what: the values, for the message.

    Raises:
        DelegatecError: DC507, the program has others.
    """
    if len(values) == count:
        return list(values)
    tensors = [v for v in values if isinstance(v[1] if isinstance(v, tuple) else v, torch.Tensor)]
    if len(tensors) != count:
        mismatch(f"{what}: the program has {count}; the model has {len(values)}")
    return tensors


def mismatch(message: str) -> NoReturn:
    """Raises DC507."""
    help = "build the program and the .pt2 from the same model"
    raise DelegatecError([Diagnostic(code="DC507", message=message, help=help)])


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same bits."""
    return bytes(tensor_bytes(first.contiguous())) == bytes(tensor_bytes(second.contiguous()))
