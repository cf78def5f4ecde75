# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of operator rows: lower a function to a blob, run it, and compare with eager mode."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Final
from unittest.mock import patch

import torch

from delegatec.backends.common.reference.unspecified import depends_on
from delegatec.backends.common.testing import Call, Compiled, Function, check_results, eager
from delegatec.backends.mlx.backend import MLX
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.backends.mlx.reference.unspecified import Unspecified
from delegatec.backends.mlx.testing import compile_module, operations
from delegatec.delegation.plugins import CheckedExecutor
from delegatec.delegation.protocol.parts import join

PRECISIONS: Final = ("fp32", "fp16")
_UNMASKED: Final = Unspecified(reads="zero")
"""Indices beyond a dimension do not raise: a graph may mask the elements that they read."""
_SPECIAL: Final = torch.tensor([0.5, math.nan, -1.5, math.inf, 1.0, -math.inf, 0.0, -0.0])
_ROUNDS: Final = 3
_TOLERANCE: Final = {"fp32": (2e-5, 2e-6), "fp16": (4e-3, 1e-3), "bf16": (2e-2, 1e-2)}
_HALF: Final = {"fp16": torch.float16, "bf16": torch.bfloat16}


def run_case(
    function: Function,
    args: tuple[torch.Tensor, ...],
    expected: str = "",
    precision: str = "fp32",
    *,
    rtol: float | None = None,
    atol: float | None = None,
    reference: Function | None = None,
    unspecified: Collection[str] = (),
    special: int = 0,
    dynamic_shapes: Any = None,
    others: Sequence[tuple[torch.Tensor, ...]] = (),
    **options: str,
) -> Compiled:
    """Checks that a function becomes one delegate with the results of eager mode.

    With half precision, eager mode computes in it as well, so that shared rounding is not a difference.

    Args:
        function: of tensors; returns a tensor or several.
        args: example inputs, also for the run.
        expected: names of the nodes of the main chain, in order; not checked if empty.
        precision: "fp32", "fp16" or "bf16".
        rtol: relative tolerance; by default that of the precision.
        atol: absolute tolerance; by default that of the precision.
        reference: computes the expected results instead of the function.
        unspecified: behaviors of MLX that the result may depend on, named as in `Unspecified`.
        special: how many inputs get NaN, infinities and zeros of both signs in further runs.
        dynamic_shapes: as of torch.export.
        others: inputs of other sizes, for further runs.
        **options: the backend's other options.

    Returns:
        The compiled program, for further checks.
    """
    compiled = compile_module(Call(function), args, precision, dynamic_shapes, **options)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    found = operations(compiled.blobs()[0])
    assert found == expected.split() or not expected, f"the blob has {' '.join(found)}"
    relative, absolute = _TOLERANCE[precision]
    tolerance = (relative if rtol is None else rtol, absolute if atol is None else atol)
    dtypes = [value.dtype for value in eager(Call(function), args)]

    def check(given: tuple[torch.Tensor, ...]) -> None:
        wanted = list(eager(Call(reference or function), _halved(given, precision)))
        check_results(compiled(*given), wanted, dtypes, *tolerance)

    for given in (args, *others):
        check(given)
    assert set(_dependencies(compiled, args)) <= {*unspecified}
    for seed in range(_ROUNDS if special else 0):
        drawn = (_drawn(tensor, seed, argument) for argument, tensor in enumerate(args[:special]))
        check((*drawn, *args[special:]))
    return compiled


def _drawn(tensor: torch.Tensor, seed: int, argument: int) -> torch.Tensor:
    """Replaces the values of a float32 tensor by special ones."""
    if tensor.dtype != torch.float32:
        return tensor
    chance = torch.Generator().manual_seed(seed * 8 + argument)
    return _SPECIAL[torch.randint(0, len(_SPECIAL), tensor.shape, generator=chance)]


def _halved(args: tuple[torch.Tensor, ...], precision: str) -> tuple[torch.Tensor, ...]:
    if precision == "fp32":
        return args
    return tuple(t.to(_HALF[precision]) if t.dtype == torch.float32 else t for t in args)


def _dependencies(compiled: Compiled, args: tuple[torch.Tensor, ...]) -> list[str]:
    """Returns the unspecified behaviors on which the results depend."""
    (delegate,) = compiled.delegates
    graph = read_blob(memoryview(delegate.blob_bytes()))
    named = {key: memoryview(join([item.data])) for key, item in delegate.named_data.items()}

    def run(choices: Unspecified) -> list[torch.Tensor]:
        executor = MlxReferenceExecutor(graph, choices)
        executor.load_named_data(named)
        with patch.object(delegate, "_executor", CheckedExecutor(MLX, executor)):
            return compiled(*args)

    return depends_on(run, _UNMASKED)


def rejected(
    function: Function, args: tuple[torch.Tensor, ...], precision: str = "fp32", **options: str
) -> list[tuple[str, str, str]]:
    """Returns operator, rule and message of each node that is not delegated."""
    return compile_module(Call(function), args, precision, None, **options).left
