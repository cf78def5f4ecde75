# SPDX-License-Identifier: Apache-2.0
"""Notes on dynamic sizes that are the same in all samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics.notes import Note
from delegatec.quantize.inputs import MethodInputs, Sample

_HELP = (
    "a program of this size alone is smaller and faster: leave the size out of dynamic_shapes; otherwise add "
    "samples of other sizes"
)


def equal_sizes(
    methods: Mapping[str, ExportedProgram], samples: Mapping[str, Sequence[Sample]]
) -> dict[str, tuple[Note, ...]]:
    """Returns the notes on each method that has any.

    Args:
        methods: method -> its program.
        samples: method -> its samples; nothing follows from a single one.
    """
    found = {name: tuple(_of_method(program, samples.get(name, ()))) for name, program in methods.items()}
    return {name: notes for name, notes in found.items() if notes}


def _of_method(program: ExportedProgram, samples: Sequence[Sample]) -> Iterator[Note]:
    if len(samples) < 2:
        return
    inputs = MethodInputs.of(program)
    leaves = [pytree.tree_leaves(each) for each in samples]
    reported: set[str] = set()
    for position, (name, value) in enumerate(inputs.values.items()):
        if not isinstance(value, torch.Tensor):
            continue
        for dim, size in enumerate(value.shape):
            if not isinstance(size, torch.SymInt) or size.node.expr.is_number or str(size) in reported:
                continue
            reported.add(str(size))
            sizes = {each[position].shape[dim] for each in leaves}
            if len(sizes) == 1:
                what = f"dimension {dim} of the input {name}"
                message = f"{what} is dynamic, and {sizes.pop()} in all {len(leaves)} samples"
                yield Note("equal-sizes", message, _HELP)
