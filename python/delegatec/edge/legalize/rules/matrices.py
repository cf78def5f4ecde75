# SPDX-License-Identifier: Apache-2.0
"""Inverse, determinant, solution, Cholesky factor and exponential of small matrices.

The runtime does not have LAPACK. The loops are unrolled, so that only matrices of static sizes up to
`_LARGEST` are supported. As in LAPACK, the pivot of a column is its largest element.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from delegatec.edge.arguments import broadcast
from delegatec.edge.legalize.rule import FunctionTable

aten = torch.ops.aten

_LARGEST: Final = 32
_HALVINGS: Final = 16
"""Most halvings of a matrix before the series of its exponential, for column sums of up to 2^16."""
_TERMS: Final = 19
"""Terms of the series, enough for column sums of 3 in float32, and 1 in float64."""


def _is_small(a: Tensor) -> bool:
    return isinstance(a.shape[-1], int) and 0 < a.shape[-1] <= _LARGEST and a.dtype.is_floating_point


def _eliminate(a: Tensor, wide: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """Does Gauss-Jordan elimination of [A | B], where A is N x N.

    Returns:
        [I | A^-1 B]; the N pivots, each [*]; and the sign [*] of the permutation of rows.
    """
    count = a.shape[-1]
    row = torch.arange(count).unsqueeze(-1)
    pivots: list[Tensor] = []
    sign = torch.ones_like(a[..., 0, 0])
    for k in range(count):
        at = torch.argmax(wide[..., k:, k].abs(), -1, keepdim=True).unsqueeze(-1) + k
        chosen = torch.gather(wide, -2, at.expand(*at.shape[:-2], 1, wide.shape[-1]))
        sign = torch.where(at[..., 0, 0] == k, sign, -sign)
        pivot = chosen[..., k : k + 1]
        pivots.append(pivot[..., 0, 0])
        replaced = torch.where(row == at, wide[..., k : k + 1, :], wide)
        scaled = chosen / pivot
        wide = torch.where(row == k, scaled, replaced - replaced[..., k : k + 1] * scaled)
    return wide, pivots, sign


def _identity_like(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)


def _info(a: Tensor, pivots: list[Tensor]) -> Tensor:
    """Returns [*], int32: the first column without a pivot, from 1; 0 if the matrix is regular."""
    info = torch.zeros_like(a[..., 0, 0], dtype=torch.int32)
    for k, pivot in reversed(list(enumerate(pivots, start=1))):
        info = torch.where(pivot == 0, k, info)
    return info


def _inv_ex(a: Tensor, *, check_errors: bool = False) -> Any:
    if not _is_small(a):
        return NotImplemented
    wide, pivots, _ = _eliminate(a, torch.cat([a, _identity_like(a)], -1))
    return wide[..., a.shape[-1] :], _info(a, pivots)


def _solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """Solves A X = B, or X A = B. The factors, for gradients, are not computed."""
    if not _is_small(a):
        return NotImplemented
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    matrix = a
    if not left:
        right, matrix = right.mT, a.mT
    batch = broadcast(right.shape[:-2], matrix.shape[:-2])
    matrix = matrix.expand(*batch, *matrix.shape[-2:])
    right = right.expand(*batch, *right.shape[-2:])
    wide, pivots, _ = _eliminate(matrix, torch.cat([matrix, right], -1))
    found = wide[..., a.shape[-1] :]
    found = found if left else found.mT
    return found.squeeze(-1) if is_vector else found, None, None, _info(matrix, pivots)


def _determinant(a: Tensor) -> Any:
    """Computes the determinant without the factors."""
    if not _is_small(a):
        return NotImplemented
    _, pivots, sign = _eliminate(a, a)
    result = sign
    singular = torch.zeros_like(sign, dtype=torch.bool)
    for pivot in pivots:
        # after a pivot of 0 everything is NaN
        singular = singular | (pivot == 0)
        result = result * pivot
    return torch.where(singular, 0.0, result), None, None


def _slogdet(a: Tensor) -> Any:
    if not _is_small(a):
        return NotImplemented
    _, pivots, sign = _eliminate(a, a)
    log = torch.zeros_like(sign)
    singular = torch.zeros_like(sign, dtype=torch.bool)
    for pivot in pivots:
        # after a pivot of 0 everything is NaN
        singular = singular | (pivot == 0)
        sign = sign * torch.sign(pivot)
        log = log + torch.log(pivot.abs())
    return torch.where(singular, 0.0, sign), torch.where(singular, -torch.inf, log), None, None


def _cholesky(a: Tensor, upper: bool = False) -> Any:
    """Computes the lower factor by columns; NaN from where the matrix is not positive definite."""
    if not _is_small(a):
        return NotImplemented
    count = a.shape[-1]
    a = a.mH if upper else a
    row = torch.arange(count).unsqueeze(-1)
    columns: list[Tensor] = []
    for k in range(count):
        column = a[..., k : k + 1]
        if columns:
            done = torch.cat(columns, -1)
            column = column - done @ done[..., k : k + 1, :].mT
        root = torch.sqrt(column[..., k : k + 1, :])
        lower = torch.where(row > k, column / root, root)  # the root itself: an infinity has one
        columns.append(torch.where(row >= k, lower, 0.0))
    factor = torch.cat(columns, -1)
    return factor.mT if upper else factor


def _cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    factor = _cholesky(a, upper)
    if factor is NotImplemented:
        return factor
    bad = torch.isnan(torch.diagonal(factor, dim1=-2, dim2=-1))
    info = torch.zeros_like(factor[..., 0, 0], dtype=torch.int32)
    for k in reversed(range(a.shape[-1])):
        info = torch.where(bad[..., k], k + 1, info)
    return factor, info


def _solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not _is_small(a):
        return NotImplemented
    if not left:
        a, b, upper = a.mT, b.mT, not upper
    count = a.shape[-1]
    rows: dict[int, Tensor] = {}
    for k in reversed(range(count)) if upper else range(count):
        value = b[..., k : k + 1, :]
        known = sorted(rows)
        if known:
            factors = a[..., k : k + 1, known[0] : known[-1] + 1]
            value = value - factors @ torch.cat([rows[j] for j in known], -2)
        if not unitriangular:
            value = value / a[..., k : k + 1, k : k + 1]
        rows[k] = value.expand(*broadcast(a.shape[:-2], b.shape[:-2]), 1, b.shape[-1])
    found = torch.cat([rows[k] for k in range(count)], -2)
    return found if left else found.mT


def _cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Any:
    lower, raised = (factor.mT, factor) if upper else (factor, factor.mT)
    found = _solve_triangular(lower, b, upper=False)
    return found if found is NotImplemented else _solve_triangular(raised, found, upper=True)


def _cholesky_inverse(factor: Tensor, upper: bool = False) -> Any:
    return _cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


def _triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    factor, is_upper = (a.mT, not upper) if transpose else (a, upper)
    found = _solve_triangular(factor, b, upper=is_upper, unitriangular=unitriangular)
    return found if found is NotImplemented else (found, a)


def _lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    """Applies the exchanges of rows, and solves by both factors, which are halves of one matrix."""
    if not left or adjoint or not _is_small(factors):
        return NotImplemented
    row = torch.arange(factors.shape[-1])
    order = row.expand(pivots.shape)
    for k in range(factors.shape[-1]):
        other = pivots[..., k : k + 1] - 1
        moved = (order * (row == other)).sum(-1, keepdim=True)
        order = torch.where(row == k, moved, torch.where(row == other, order[..., k : k + 1], order))
    batch = broadcast(factors.shape[:-2], b.shape[:-2])
    rows = b.expand(*batch, *b.shape[-2:]).gather(-2, order.unsqueeze(-1).expand(*batch, *b.shape[-2:]))
    found = _solve_triangular(factors, rows, upper=False, unitriangular=True)
    return _solve_triangular(factors, found, upper=True)


def _exponential(a: Tensor) -> Any:
    """Computes the series of the matrix divided by a power of two, and squares the sum as many times."""
    if not _is_small(a):
        return NotImplemented
    size = a.abs().sum(-2).amax(-1)[..., None, None] / (1.0 if a.dtype == torch.float64 else 3.0)
    halvings = size.log2().ceil().clamp(0.0, _HALVINGS)
    scaled = a * torch.exp2(-halvings)
    power = result = torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)
    for k in range(1, _TERMS):
        power = power @ scaled / k
        result = result + power
    for k in range(_HALVINGS):
        result = torch.where(halvings > k, result @ result, result)
    return result


FUNCTIONS: FunctionTable = {
    aten._linalg_det.default: _determinant,
    aten._linalg_slogdet.default: _slogdet,
    aten._linalg_solve_ex.default: _solve_ex,
    aten.cholesky.default: _cholesky,
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.linalg_cholesky_ex.default: _cholesky_ex,
    aten.linalg_inv_ex.default: _inv_ex,
    aten.linalg_matrix_exp.default: _exponential,
    aten.linalg_lu_solve.default: _lu_solve,
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten.triangular_solve.default: _triangular_solve,
}
