# SPDX-License-Identifier: Apache-2.0
"""Outcomes of samples of an operator: as in eager mode, rejected, or wrong."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import export
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.core_case import Function
from tests.oracle.oracle import OracleProgram


@dataclass(frozen=True)
class Outcome:
    """The outcome of a sample.

    Attributes:
        kind: "agrees" with eager mode; "refused" by the compiler; "no export", torch.export does not support
            it; or "wrong": a crash of the compiler or of the runtime, another result.
        text: why.
    """

    kind: str
    text: str = ""


def outcomes(operator: Any, dtype: torch.dtype, most: int) -> Iterator[Outcome]:
    """Yields the outcomes of the first, the last, and others of the samples that torch has of an operator.

    Args:
        operator: an OpInfo.
        dtype: of the samples.
        most: how many.
    """
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    samples = list(operator.sample_inputs("cpu", dtype))
    chosen = sorted({round(i * (len(samples) - 1) / max(most - 1, 1)) for i in range(most)})
    for index in chosen[: len(samples)]:
        sample = samples[index]
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        # a program's inputs are row-major
        tensors = [leaf.detach().contiguous() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        yield _outcome(_call(operator.op, leaves, spec), tensors)


def _call(function: Callable[..., Any], leaves: Sequence[Any], spec: Any) -> Callable[..., Any]:
    def call(*inputs: torch.Tensor) -> Any:
        remaining = iter(inputs)
        filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return function(*args, **kwargs)

    return call


def _outcome(call: Callable[..., Any], tensors: list[torch.Tensor]) -> Outcome:
    try:
        with torch.no_grad():
            expected = pytree.tree_leaves(call(*(tensor.clone() for tensor in tensors)))
            exported = export(Function(call).eval(), tuple(tensors))
    except Exception as error:  # noqa: BLE001 - any error of torch for its own sample
        return Outcome("no export", f"{type(error).__name__}: {error}")
    called = {node.target for node in exported.graph.nodes if isinstance(node.target, torch._ops.OpOverload)}
    # random numbers, and uninitialized memory
    is_defined = not any(
        torch.Tag.nondeterministic_seeded in target.tags or "empty" in target._opname for target in called
    )
    try:
        file = io.BytesIO()
        write_program(lower({"forward": exported}).emitted, file)
        results = OracleProgram(file.getvalue()).run(tensors)
        assert len(results) == len(expected), f"{len(results)} results for {len(expected)}"
        for result, wanted in zip(results, expected, strict=True):
            _compare(result, wanted, is_defined)
    except DelegatecError as error:
        return Outcome("refused", str(error))
    except Exception as error:  # noqa: BLE001 - the errors that the test looks for
        return Outcome("wrong", f"{type(error).__name__}: {error}")
    return Outcome("agrees")


def _compare(result: Any, wanted: Any, is_defined: bool) -> None:
    if not isinstance(wanted, torch.Tensor):
        assert result == wanted, f"{result} for {wanted}"
        return
    assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape), f"{result.dtype}{result.shape}"
    if is_defined:
        tolerance = 2e-2 if wanted.dtype in (torch.float16, torch.bfloat16) else 1e-4
        torch.testing.assert_close(result, wanted, equal_nan=True, atol=tolerance, rtol=tolerance)
