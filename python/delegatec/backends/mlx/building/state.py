# SPDX-License-Identifier: Apache-2.0
"""State: buffers whose new values are written at the end of a run.

A slot holds a tensor, and writing to it does not change others that were computed from its old one. So a new
value is written as soon as it is known, if no later operation reads the old one; the runtime then updates
memory in place.

Two properties of lazy graphs would make state wrong:

*   What no output depends on is not computed at the end of a run. The graph, with the inputs that it has,
    would grow with each run. Such state is computed by reading an element of it.
*   On Apple's systems inputs are not copied if they are aligned to pages: a new value that is an input,
    or a view of one, is copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import torch

from delegatec.backends.mlx.building.draft import Draft
from delegatec.backends.mlx.building.values import Array, Index, Int, Operation, Scalar, Value
from delegatec.backends.mlx.dtypes import TO_FORMAT

# Their results may share the memory of their operands.
_VIEWS: Final = frozenset(
    {
        *("AsStrided", "AsType", "BroadcastTo", "Contiguous", "ExpandDims", "IdCopy", "Reshape", "Slice"),
        *("Split", "Squeeze", "Take", "Transpose"),
    }
)


def keep_state(draft: Draft, state: Mapping[Array, Array]) -> None:
    """Appends the writes to buffers.

    Args:
        draft: the graph, edited in place.
        state: buffer -> its new value.
    """
    changed = {buffer: new for buffer, new in state.items() if buffer is not new}
    if not changed:
        return
    producers: dict[Value, Operation] = {
        value: each for each in draft.main.operations for value in each.results()
    }
    _, needed = draft.needed(draft.outputs)
    old = {buffer: _copied(draft, "IdCopy", buffer) for buffer in changed if buffer in draft.outputs}
    draft.outputs = [old.get(each, each) if isinstance(each, Array) else each for each in draft.outputs]
    for buffer, new in changed.items():
        if _is_given(draft, producers, new):
            changed[buffer] = _copied(draft, "Maximum", new)
        elif new in changed:
            changed[buffer] = _copied(draft, "IdCopy", new)
        if new not in needed:
            _compute(draft, changed[buffer])
    draft.main.operations += [
        Operation("IdCopy", {"x": new, "out": buffer}) for buffer, new in changed.items()
    ]
    once = [new for new, count in Counter(changed.values()).items() if count == 1]
    for buffer, new in changed.items():
        if new in once:
            _write_early(draft, buffer, new)


def _copied(draft: Draft, name: str, array: Array) -> Array:
    """Appends a copy of a value; a Maximum of equal operands has other memory."""
    copy = Array(array.dtype, array.shape)
    fields = {"x": array} if name == "IdCopy" else {"a": array, "b": array}
    draft.main.operations.append(Operation(name, {**fields, "out": copy}))
    return copy


def _write_early(draft: Draft, buffer: Array, new: Array) -> None:
    """Lets the operation that computes a new value write it to the buffer, if nothing reads the old one."""
    operations = draft.main.operations
    makes = [index for index, each in enumerate(operations) if new in each.own_results()]
    (store,) = (index for index, each in enumerate(operations) if each.fields.get("out") is buffer)
    if not makes or any(buffer in each.operands() for each in operations[makes[0] + 1 :]):
        return
    del operations[store]
    draft.main.replace(new, buffer)
    draft.outputs = [buffer if each is new else each for each in draft.outputs]


def _is_given(draft: Draft, producers: Mapping[Value, Operation], array: Value) -> bool:
    """Whether a value may have the memory of an input. A chain may return one."""
    while array in producers and producers[array].name in _VIEWS:
        array = next(each for each in producers[array].operands() if isinstance(each, Array))
    return array in draft.inputs or (array in producers and any(producers[array].chains()))


def _compute(draft: Draft, array: Array) -> None:
    """Appends operations that read an element, for which the runtime computes the tensor."""
    flat, element = Array(array.dtype, (-1,)), Array(array.dtype, ())
    integer, read = Array(torch.int32, ()), Scalar()
    draft.main.operations += [
        Operation("Reshape", {"x": array, "out": flat, "shape": [Int(-1)]}),
        Operation("Take", {"x": flat, "out": element, "index": Index(0), "axis": 0}),
        Operation("AsType", {"x": element, "out": integer, "dtype": TO_FORMAT[torch.int32]}),
        Operation("Item", {"x": integer, "out": read}),
    ]
    draft.observed.append(read)
