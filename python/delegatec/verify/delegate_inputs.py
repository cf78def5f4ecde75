# SPDX-License-Identifier: Apache-2.0
"""Detection of the inputs among the arguments of delegate calls, which only the backend knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from delegatec.delegation.protocol.executor import ReferenceExecutor
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.model import DelegateCall, KernelCall, Method, MoveCall, Tensor, Value


def possible_input_counts(method: Method, executors: Sequence[ReferenceExecutor]) -> dict[int, range]:
    """Returns possible numbers of inputs of each delegate call, by instruction.

    An executor may know (`num_inputs`). Otherwise, all arguments up to the last one that is a constant, or
    was set before the call, are inputs; those after it are outputs, or views, which no instruction sets.

    Args:
        method: the method.
        executors: executors of its delegates.
    """
    counts: dict[int, range] = {}
    written = set(method.inputs)
    for position, instruction in enumerate(method.chains[0].instructions):
        match instruction:
            case KernelCall():
                written.update(instruction.args)
            case MoveCall():
                written.add(instruction.target)
            case DelegateCall(args=args):
                num_inputs = executors[instruction.delegate].num_inputs
                if num_inputs is not None:
                    counts[position] = range(num_inputs, num_inputs + 1)
                else:
                    known = (i in written or _has_content(method.values[i]) for i in args)
                    least = max((count for count, yes in enumerate(known, 1) if yes), default=0)
                    counts[position] = range(least, len(args) + 1)
                written.update(args)
    return counts


def run_delegate(
    executor: ReferenceExecutor, arguments: Sequence[int], read: Callable[[int], Any], counts: range
) -> tuple[int, Sequence[Any]]:
    """Runs a delegate with a number of inputs that leaves one argument for each output.

    Args:
        executor: the delegate; it has no side effects.
        arguments: indices of inputs and outputs.
        read: returns the value of an index; outputs may have none yet.
        counts: the possible numbers of inputs.

    Returns:
        The number of inputs, and the values of the outputs.

    Raises:
        DelegatecError: DC505 if no number fits.
        Exception: if no number fits, the executor's exception for the smallest.
    """
    first: BaseException | None = None
    for count in counts:
        try:
            outputs = executor([read(index) for index in arguments[:count]])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of a backend ran
            first = first or error
            continue
        if count + len(outputs) == len(arguments):
            return count, outputs
        message = f"the delegate returns {len(outputs)} outputs; the program expects {len(arguments) - count}"
        first = first or DelegatecError([Diagnostic(code="DC505", message=message)])
    assert first is not None, "the range is empty"
    raise first


def _has_content(value: Value) -> bool:
    return not isinstance(value, Tensor) or value.data is not None or value.external_key is not None
