# SPDX-License-Identifier: Apache-2.0
"""Gathers and updates. Negative indices count from the end."""

from __future__ import annotations

from typing import Any, Final

import torch

from delegatec.backends.mlx.reference.moves import positions_in
from delegatec.backends.mlx.reference.run import Run, Semantics, axis_of, promoted, reject
from delegatec.edge.arguments import broadcast

Tensor = torch.Tensor


def _positions(run: Run, index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Returns nonnegative positions, and where they are beyond the dimension."""
    wide = index.to(torch.int64)
    if index.dtype.is_floating_point or index.dtype == torch.bool:
        reject(f"an index of {index.dtype}")
    wide = torch.where(wide < 0, wide + size, wide)
    beyond = (wide < 0) | (wide >= size)
    run.unspecified.choose("reads", lambda: beyond, "an index beyond the dimension")
    return torch.where(beyond, 0, wide), beyond


def _read(run: Run, found: Tensor, beyond: Tensor) -> Tensor:
    """Returns what is read, where indices may be beyond the dimension."""
    if run.unspecified.reads != "zero":
        return found
    return torch.where(beyond, torch.zeros((), dtype=found.dtype), found)


def _take(run: Run, node: Any) -> None:
    x = run[node.x]
    axis = axis_of(node.axis, x.dim())
    if node.index.kind != 2:
        given = run.value(node.index.value) if node.index.kind == 1 else node.index.literal
        run[node.out] = x.select(axis, axis_of(int(given), x.shape[axis]))
        return
    index = run[node.index.tensor]
    positions, beyond = _positions(run, index, x.shape[axis])
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    found = x.index_select(axis, positions.reshape(-1)).reshape(shape)
    spread = beyond.reshape(*[1] * axis, *index.shape, *[1] * (x.dim() - axis - 1))
    run[node.out] = _read(run, found, spread)


def _take_along_axis(run: Run, node: Any) -> None:
    x, index = run[node.x], run[node.indices]
    axis = axis_of(node.axis, x.dim())
    if index.dim() != x.dim():
        reject(f"an index of {index.dim()} dimensions for {x.dim()}")
    positions, beyond = _positions(run, index, x.shape[axis])
    shape = broadcast(
        *(tuple(1 if dim == axis else size for dim, size in enumerate(each.shape)) for each in (x, index))
    )
    wide = [x.shape[axis] if dim == axis else size for dim, size in enumerate(shape)]
    chosen = [index.shape[axis] if dim == axis else size for dim, size in enumerate(shape)]
    found = x.expand(wide).gather(axis, positions.expand(chosen))
    run[node.out] = _read(run, found, beyond)


def _gather(run: Run, node: Any) -> None:
    x = run[node.x]
    given = [run[each] for each in node.indices]
    leading = broadcast(*(each.shape for each in given))
    indices = [each.expand(leading) for each in given]
    sizes = list(node.sliceSizes)
    if len(sizes) != x.dim() or len(node.axes) != len(indices):
        reject(f"slices of sizes {sizes} of {x.dim()} dimensions")
    if any(size != 1 for axis, size in enumerate(sizes) if axis in node.axes):
        reject(f"slices of sizes {sizes} along the axes {list(node.axes)}")
    beyond = torch.zeros((), dtype=torch.bool, device=x.device)
    chosen: list[Any] = [slice(0, size) for size in sizes]
    for axis, index in zip(node.axes, indices, strict=True):
        chosen[axis], outside = _positions(run, index, x.shape[axis])
        beyond = beyond | outside
    moved = x.permute(*node.axes, *(dim for dim in range(x.dim()) if dim not in node.axes))
    rest = [chosen[dim] for dim in range(x.dim()) if dim not in node.axes]
    found = moved[(*(chosen[axis] for axis in node.axes), *rest)]
    spread = beyond.reshape(*beyond.shape, *[1] * len(rest)) if beyond.dim() else beyond
    run[node.out] = _read(run, found, spread).reshape(*leading, *sizes)


def _scatter_add(run: Run, node: Any) -> None:
    x, index = run[node.x], run[node.indices]
    axis = axis_of(node.axis, x.dim())
    x, updates = promoted(x, run[node.updates])
    positions, _ = _positions(run, index, x.shape[axis])
    shape = broadcast(positions.shape, updates.shape)
    run[node.out] = x.scatter_add(axis, positions.expand(shape), updates.expand(shape))


def _slice_update(run: Run, node: Any) -> None:
    x, update = run[node.dst], run[node.update]
    axis = axis_of(run.integer(node.axis), x.dim())
    if node.step < 1:
        reject(f"a SliceUpdate with step {node.step}")
    chosen = range(x.shape[axis])[slice(run.integer(node.start), run.integer(node.stop), node.step)]
    if not chosen:
        run[node.out] = x
        return
    shape = [len(chosen) if dim == axis else size for dim, size in enumerate(x.shape)]
    index = positions_in(chosen, x.device)
    run[node.out] = x.index_copy(axis, index, update.to(x.dtype).expand(shape))


def _index_copy(run: Run, node: Any) -> None:
    """Copies slices in order: the last one of equal positions stays."""
    x, update, index = run[node.dst], run[node.update], run[node.indices]
    axis = axis_of(node.axis, x.dim())
    if index.dim() != 1 or index.dtype != torch.int64:
        reject(f"an index of {index.dtype} and {index.dim()} dimensions")
    if not index.is_contiguous():
        reject("an index with a stride, which the runtime would not read with it")
    if index.device.type != "meta" and bool(((index < -x.shape[axis]) | (index >= x.shape[axis])).any()):
        reject("an index beyond the dimension")
    positions = torch.where(index < 0, index + x.shape[axis], index)
    if index.device.type == "meta":  # a run without elements, whose rows may be many
        run[node.out] = x.clone()
        return
    found = x.clone()
    shape = [1 if dim == axis else size for dim, size in enumerate(x.shape)]
    for row in range(index.shape[0]):
        part = update.to(x.dtype).narrow(axis, row, 1).expand(shape)
        found = found.index_copy(axis, positions[row : row + 1], part)
    run[node.out] = found


SEMANTICS: Final[dict[str, Semantics]] = {
    "Gather": _gather,
    "IndexCopy": _index_copy,
    "ScatterAdd": _scatter_add,
    "SliceUpdate": _slice_update,
    "Take": _take,
    "TakeAlongAxis": _take_along_axis,
}
