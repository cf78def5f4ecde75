# SPDX-License-Identifier: Apache-2.0
"""Slots: their order, temporaries that share one, and chains that an operation runs."""

from __future__ import annotations

import torch

from delegatec.backends.mlx.building.draft import Constant, Draft
from delegatec.backends.mlx.building.slots import Slots
from delegatec.backends.mlx.building.values import Array, Int, Operation, Scalar


def _array() -> Array:
    return Array(torch.float32, (2,))


def _add(first: Array, second: Array, out: Array) -> Operation:
    return Operation("Add", {"a": first, "b": second, "out": out})


def test_temporaries_share_a_slot() -> None:
    x, out, weight = _array(), _array(), _array()
    draft = Draft()
    draft.constants[weight] = Constant("key", b"")
    draft.inputs.append(x)
    values = [_array() for _ in range(4)]
    for first, second in zip([x, *values], [*values, out], strict=True):
        draft.append(_add(first, weight, second))
    draft.outputs.append(out)
    slots = Slots(draft)
    assert [slots.of(each) for each in (weight, x, out)] == [0, 1, 2]
    assert {slots.of(each) for each in values} == {3}
    assert (slots.counts, slots.temporaries) == ((1, 1, 1, 0), 1)


def test_a_value_keeps_its_slot_until_its_last_use() -> None:
    x, first, second, third, out = (_array() for _ in range(5))
    draft = Draft()
    draft.inputs.append(x)
    draft.outputs.append(out)
    for operation in (
        _add(x, x, first),
        _add(x, x, second),
        _add(first, second, third),
        _add(first, third, out),
    ):
        draft.append(operation)
    slots = Slots(draft)
    assert slots.of(first) not in (slots.of(second), slots.of(third))
    assert slots.temporaries == 2


def test_outputs_may_be_inputs() -> None:
    x = _array()
    draft = Draft()
    draft.inputs.append(x)
    draft.outputs += [x, x]
    slots = Slots(draft)
    assert (slots.of(x), slots.counts) == (0, (0, 1, 0, 0))


def test_branches_share_slots_but_not_with_values_around_them() -> None:
    x, before, out, inner, other = (_array() for _ in range(5))
    condition = Scalar()
    draft = Draft()
    draft.inputs += [x, condition]
    draft.append(_add(x, x, before))
    with draft.chain() as yes:
        draft.append(_add(x, x, inner))
        draft.append(_add(inner, before, out))
    with draft.chain() as no:
        draft.append(_add(x, x, other))
        draft.append(_add(other, x, out))
    draft.append(Operation("If", {"condition": Int(condition), "yes": yes, "no": no}))
    result = _array()
    draft.append(_add(out, before, result))
    draft.outputs.append(result)
    draft.drop_dead_code()
    slots = Slots(draft)
    assert len({slots.of(each) for each in (before, out, inner)}) == 3
    assert slots.of(inner) == slots.of(other)
    assert slots.values == 1
    assert [len(chain.operations) for chain in draft.walk()] == [3, 2, 2]
