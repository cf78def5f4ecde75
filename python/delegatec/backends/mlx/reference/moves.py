# SPDX-License-Identifier: Apache-2.0
"""Nodes that move elements, or only change the shape, and those that create tensors."""

from __future__ import annotations

from typing import Any, Final

import torch

from delegatec.backends.mlx.reference.run import Run, Semantics, axis_of, dtype_of, promoted, reject, text


def _reshape(run: Run, node: Any) -> None:
    run[node.out] = run[node.x].reshape(run.integers(node.shape))


def _broadcast(run: Run, node: Any) -> None:
    run[node.out] = run[node.x].expand(run.integers(node.shape))


def _transpose(run: Run, node: Any) -> None:
    run[node.out] = run[node.x].permute(node.perm)


def _expand_dims(run: Run, node: Any) -> None:
    x = run[node.x]
    run[node.out] = x.unsqueeze(axis_of(node.axis, x.dim() + 1))


def _squeeze(run: Run, node: Any) -> None:
    x = run[node.x]
    run[node.out] = x.squeeze(tuple(node.dims)) if node.dims else x.squeeze()


def _slice(run: Run, node: Any) -> None:
    x = run[node.x]
    axis = axis_of(run.integer(node.axis), x.dim())
    start, stop = run.integer(node.start), run.integer(node.stop)
    if node.step == 0:
        reject("a Slice with step 0")
    # as in Python: negative bounds count from the end, others are clamped
    chosen = range(x.shape[axis])[slice(start, stop, node.step)]
    if node.step > 0 and chosen:
        window: tuple[Any, ...] = (slice(None),) * axis + (slice(chosen[0], chosen[-1] + 1, node.step),)
        run[node.out] = x[window]
    else:
        index = positions_in(chosen, x.device)
        # torch selects no unsigned integers of 32 bits
        signed = x.view(torch.int32) if x.dtype == torch.uint32 else x
        run[node.out] = signed.index_select(axis, index).view(x.dtype)


def positions_in(chosen: range, device: torch.device) -> torch.Tensor:
    """Returns the integers of a range."""
    if not chosen:
        return torch.empty(0, dtype=torch.int64, device=device)
    return torch.arange(chosen.start, chosen.stop, chosen.step, device=device)


def _split(run: Run, node: Any) -> None:
    x, sizes = run[node.x], run.integers(node.sizes)
    axis = axis_of(node.axis, x.dim())
    parts = torch.split(x, sizes[0] if len(sizes) == 1 else sizes, axis)
    if len(parts) != len(node.outs):
        reject(f"a Split into {len(parts)} parts, and {len(node.outs)} results")
    for slot, part in zip(node.outs, parts, strict=True):
        run[slot] = part


def _concatenate(run: Run, node: Any) -> None:
    tensors = promoted(*(run[each] for each in node.tensors))
    run[node.out] = torch.cat(tensors, axis_of(node.axis, tensors[0].dim()))


def _stack(run: Run, node: Any) -> None:
    tensors = promoted(*(run[each] for each in node.tensors))
    run[node.out] = torch.stack(tensors, axis_of(node.axis, tensors[0].dim() + 1))


def _tile(run: Run, node: Any) -> None:
    x, reps = run[node.x], run.integers(node.reps)
    run.check_size([*x.shape, *reps])
    run[node.out] = x.tile(reps)


def _repeat(run: Run, node: Any) -> None:
    x, repeats = run[node.x], run.integer(node.repeats)
    run.check_size([*x.shape, repeats])
    run[node.out] = x.repeat_interleave(repeats, axis_of(node.axis, x.dim()))


def _pad(run: Run, node: Any) -> None:
    x, amounts = run[node.x], run.integers(node.amounts)
    if len(amounts) != 2 * x.dim() or min(amounts, default=0) < 0:
        reject(f"a Pad of {amounts} for {x.dim()} dimensions")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    run.check_size([size + sum(pair) for size, pair in zip(x.shape, pairs, strict=True)])
    mode = text(node.mode)
    if mode == "edge":
        for dim, (before, after) in enumerate(pairs):
            index = torch.arange(-before, x.shape[dim] + after, device=x.device)
            x = x.index_select(dim, index.clamp(0, x.shape[dim] - 1))
        run[node.out] = x
        return
    if mode != "constant":
        reject(f"a Pad of mode {mode}")
    flat = [amount for pair in reversed(pairs) for amount in pair]
    value = float(torch.tensor(node.value, dtype=torch.float32).item())
    run[node.out] = torch.nn.functional.pad(x, flat, value=value if x.dtype.is_floating_point else int(value))


def _roll(run: Run, node: Any) -> None:
    run[node.out] = run[node.x].roll(run.integers(node.shifts), list(node.axes))


def _flip(run: Run, node: Any) -> None:
    run[node.out] = run[node.x].flip(list(node.axes))


def _as_strided(run: Run, node: Any) -> None:
    x = run[node.x].contiguous()
    shape, strides = run.integers(node.shape), run.integers(node.strides)
    last = node.offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if min(strides, default=0) < 0 or last >= x.numel():
        reject(f"a view of shape {shape} and strides {strides} of {x.numel()} elements")
    run[node.out] = x.as_strided(shape, strides, x.storage_offset() + node.offset)


def _arange(run: Run, node: Any) -> None:
    start, stop, step = run.integer(node.start), run.integer(node.stop), run.integer(node.step)
    if step == 0 or (stop - start) * step <= 0:
        reject(f"an Arange from {start} to {stop} by {step}")
    run.check_size([(stop - start) // step])
    dtype = torch.int32 if node.dtype is None else dtype_of(node.dtype)
    run[node.out] = torch.arange(start, stop, step, device=run.device).to(dtype)


def _full(run: Run, node: Any) -> None:
    shape = run.integers(node.shape)
    if min(shape, default=1) < 1:
        reject(f"a Full of shape {shape}")
    run.check_size(shape)
    run[node.out] = torch.full(shape, run.number(node.value), device=run.device).to(dtype_of(node.dtype))


def _full_like(run: Run, node: Any) -> None:
    x = run[node.x]
    dtype = x.dtype if node.dtype is None else dtype_of(node.dtype)
    run[node.out] = torch.full(x.shape, run.number(node.value), device=run.device).to(dtype)


def _tri(run: Run, node: Any) -> None:
    shape = [run.integer(node.n), run.integer(node.m)]
    run.check_size(shape)
    run[node.out] = torch.ones(shape, device=run.device).tril(node.k).to(dtype_of(node.dtype))


SEMANTICS: Final[dict[str, Semantics]] = {
    "Arange": _arange,
    "AsStrided": _as_strided,
    "BroadcastTo": _broadcast,
    "Concatenate": _concatenate,
    "ExpandDims": _expand_dims,
    "Flip": _flip,
    "Full": _full,
    "FullLike": _full_like,
    "Pad": _pad,
    "Repeat": _repeat,
    "Reshape": _reshape,
    "Roll": _roll,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Stack": _stack,
    "Tile": _tile,
    "Transpose": _transpose,
    "Tri": _tri,
    "Tril": lambda run, node: run.set(node.out.id, run[node.x].tril(node.k)),
    "Triu": lambda run, node: run.set(node.out.id, run[node.x].triu(node.k)),
}
