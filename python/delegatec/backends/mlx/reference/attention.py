# SPDX-License-Identifier: Apache-2.0
"""Attention, also to the cache that the runtime owns. Scores are computed in float32."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from delegatec.backends.mlx.reference.run import Run, Semantics, dtype_of, reject

Tensor = torch.Tensor


def _sdpa(run: Run, node: Any) -> None:
    q, k, v = (run[each] for each in (node.q, node.k, node.v))
    mask = run.optional(node.mask)
    scores = _scores(q, k, v, node.scale)
    allowed = None
    if node.causal:
        allowed = _causal(scores)
    elif mask is not None and mask.dtype == torch.bool:
        allowed = mask
    elif mask is not None:
        scores = scores + mask.to(q.dtype).float()
    found, alive = _attended(scores, allowed, v, q.dtype), _alive(scores, allowed, mask)
    choice = run.unspecified.choose("masked_rows", lambda: ~alive, "attention of fully masked rows")
    run[node.out] = torch.where(alive, found, math.nan) if choice == "nan" else found


def _update_and_attend(run: Run, node: Any) -> None:
    """The runtime reads the first position only: rows are consecutive."""
    q, k, v, positions = (run[each] for each in (node.q, node.k, node.v, node.position))
    if node.layer is None or node.scale is None:
        reject("attention to the runtime's cache without a layer or a scale")
    if node.layer < 0:
        reject(f"attention to layer {node.layer}")
    if positions.dtype not in (torch.int32, torch.int64) or not positions.numel():
        reject(f"positions of {positions.dtype} and shape {list(positions.shape)}")
    first = int(positions.flatten()[0]) if run.has_elements else 0
    keys, values = run.cached(node.layer, first, k, v)
    scores = _scores(q, keys.to(q.dtype), values, node.scale)
    found = _attended(scores, _causal(scores), values.to(q.dtype), q.dtype)
    run[node.out] = found if node.dtype is None else found.to(dtype_of(node.dtype))


def _scores(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    if not q.dim() == k.dim() == v.dim() == 4 or q.shape[1] % k.shape[1]:
        reject(f"attention of shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)}")
    return (q.float() * scale) @ k.float().repeat_interleave(q.shape[1] // k.shape[1], 1).mT


def _causal(scores: Tensor) -> Tensor:
    """Returns which scores are of rows up to each query: the last row and the last query are one token's."""
    rows, columns = scores.shape[-2:]
    return torch.ones(rows, columns, dtype=torch.bool, device=scores.device).tril(columns - rows)


def _attended(scores: Tensor, allowed: Tensor | None, v: Tensor, dtype: torch.dtype) -> Tensor:
    if allowed is not None:
        scores = torch.where(allowed, scores, torch.finfo(torch.float32).min)
    values = v.float().repeat_interleave(scores.shape[1] // v.shape[1], 1)
    return (scores.softmax(-1) @ values).to(dtype)


def _alive(scores: Tensor, allowed: Tensor | None, mask: Tensor | None) -> Tensor:
    if allowed is not None:
        return allowed.any(-1, keepdim=True)
    if mask is not None:
        return (scores > -math.inf).any(-1, keepdim=True)
    return torch.ones((), dtype=torch.bool, device=scores.device)


SEMANTICS: Final[dict[str, Semantics]] = {"Sdpa": _sdpa, "UpdateAndAttend": _update_and_attend}
