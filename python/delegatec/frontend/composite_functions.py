# SPDX-License-Identifier: Apache-2.0
"""Functions of torch that torch.export cannot trace, in terms of others, for the time of an export.

Their implementations in C++ have results whose sizes depend on values, or compare tensors.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


@contextlib.contextmanager
def composite_functions_replaced(strict: bool) -> Iterator[None]:
    """Replaces the functions and methods of this module.

    Args:
        strict: whether torch.export traces bytecode: modes around it are for other functions then.
    """
    with contextlib.ExitStack() as stack:
        if not strict:
            stack.enter_context(_ImportedFunctions())
        for name, function in _FUNCTIONS.items():
            for owner in (torch, Tensor):
                if hasattr(owner, name):
                    stack.enter_context(patch.object(owner, name, function))
        stack.enter_context(patch.object(torch.linalg, "lstsq", _lstsq))
        yield


def _combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    if input.dim() != 1 or r < 1:
        result: Tensor = torch.ops.aten.combinations.default(input, r, with_replacement)
        return result
    choose: Any = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = torch.tensor(list(choose(range(input.shape[0]), r)), dtype=torch.int64)
    return input[chosen.view(-1, r)]


def _cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Returns the covariances of the rows."""
    if input.dim() > 2:
        found: Tensor = torch.ops.aten.cov.default(input, correction=correction)
        return found
    x = input if input.is_floating_point() or input.is_complex() else input.to(torch.get_default_dtype())
    x = x if x.dim() == 2 else x.view(1, -1)
    weights = fweights
    if aweights is not None:
        weights = aweights if fweights is None else fweights * aweights
    total: Any = x.shape[1] if weights is None else weights.sum()
    mean = x.mean(1, True) if weights is None else (x * weights).sum(1, keepdim=True) / total
    degrees: Any = total - correction
    if aweights is not None and weights is not None and correction:
        degrees = total - correction * (weights * aweights).sum() / total
    centered = x - mean
    products = (centered if weights is None else centered * weights) @ centered.mH
    degrees = degrees.clamp(min=0) if isinstance(degrees, Tensor) else max(degrees, 0)
    result: Tensor = products / degrees
    return result.squeeze()


def _corrcoef(input: Tensor) -> Tensor:
    covariances = _cov(input)
    if covariances.dim() == 0:
        return covariances / covariances
    deviations = (
        covariances.diagonal().real.sqrt() if covariances.is_complex() else covariances.diagonal().sqrt()
    )
    result = covariances / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    return result if result.is_complex() else result.clamp(-1, 1)


_least_squares: Final = torch.linalg.lstsq


def _lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:  # noqa: N803 - torch's names
    """Returns the results of the default driver on the CPU, which computes no residuals."""
    if driver not in (None, "gelsy"):
        return _least_squares(A, B, rcond, driver=driver)
    is_vector = A.dim() == B.dim() + 1
    right = B.unsqueeze(-1) if is_vector else B
    solution = torch.linalg.pinv(A, rtol=rcond) @ right
    results = (
        solution.squeeze(-1) if is_vector else solution,
        A.new_zeros(0),
        torch.linalg.matrix_rank(A, rtol=rcond),
        A.new_zeros(0),
    )
    return torch.return_types.linalg_lstsq(results)  # type: ignore[attr-defined]


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "combinations": _combinations,
    "corrcoef": _corrcoef,
    "cov": _cov,
}
_IMPORTED: Final[dict[Any, Callable[..., Any]]] = {
    _least_squares: _lstsq,
    **{getattr(torch, name): function for name, function in _FUNCTIONS.items()},
    **{getattr(Tensor, name): _FUNCTIONS[name] for name in ("corrcoef", "cov")},
}


class _ImportedFunctions(TorchFunctionMode):
    """Replaces functions that user code has under another name, as after `from torch import cov`."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _IMPORTED.get(func, func)(*args, **(kwargs or {}))
