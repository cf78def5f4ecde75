# SPDX-License-Identifier: Apache-2.0
"""The guard, on FlatBuffers of a schema with strings, vectors and a union."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import flatbuffers
import pytest
from delegatec_schemas import program as schema

from delegatec.diagnostics import DelegatecError
from delegatec.flatbuffer import Table, unpack

ITEMS = list(range(64))


def packed(values: int = 1, items: list[int] = ITEMS) -> bytearray:
    """A program of one method, whose values are all the same table: a list."""
    b = flatbuffers.Builder(0)
    text = b.CreateString("forward")
    items = schema.IntListT(items=items).Pack(b)
    schema.EValueStart(b)
    schema.EValueAddValType(b, schema.KernelTypes.IntList)
    schema.EValueAddVal(b, items)
    value = schema.EValueEnd(b)
    schema.ExecutionPlanStartValuesVector(b, values)
    for _ in range(values):
        b.PrependUOffsetTRelative(value)
    vector = b.EndVector()
    schema.ExecutionPlanStart(b)
    schema.ExecutionPlanAddName(b, text)
    schema.ExecutionPlanAddValues(b, vector)
    plan = schema.ExecutionPlanEnd(b)
    schema.ProgramStartExecutionPlanVector(b, 1)
    b.PrependUOffsetTRelative(plan)
    plans = b.EndVector()
    schema.ProgramStart(b)
    schema.ProgramAddExecutionPlan(b, plans)
    b.Finish(schema.ProgramEnd(b))
    return bytearray(b.Output())


def plan_of(data: bytearray) -> Table:
    (plan,) = Table.root(schema.Program, memoryview(data), "DC352").children("ExecutionPlan")
    return plan


def lists_of(plan: Table) -> list[Any]:
    members = {schema.KernelTypes.IntList: schema.IntList}
    unions = [value.union("Val", members)[1] for value in plan.children("Values")]
    return [union.array("Items") for union in unions if union is not None]


def with_string_of(size: int) -> bytearray:
    data = packed()
    struct.pack_into("<I", data, data.index(b"forward") - 4, size)
    return data


def message_of(read: Callable[[], Any]) -> str:
    with pytest.raises(DelegatecError) as error:
        read()
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "DC352"
    return diagnostic.message


def test_a_sound_buffer_is_read_either_way() -> None:
    plan = plan_of(packed(2))
    assert plan.text("Name") == "forward"
    assert lists_of(plan) == [tuple(ITEMS)] * 2
    (unpacked,) = unpack(schema.ProgramT, memoryview(packed(2))).executionPlan
    assert (unpacked.name, [value.val.items for value in unpacked.values]) == (b"forward", [ITEMS] * 2)
    assert unpacked.operators is None


def test_a_string_beyond_the_end() -> None:
    data = with_string_of(2**20)
    assert message_of(lambda: plan_of(data).text("Name")).startswith("ExecutionPlan[0].Name: bytes ")
    with pytest.raises(ValueError, match=f"bytes .* of {len(data)}"):
        unpack(schema.ProgramT, memoryview(data))


def test_elements_that_many_tables_share() -> None:
    data = packed(1000)
    assert len(data) < 5000
    assert message_of(lambda: lists_of(plan_of(data))).endswith(": more elements than the file can contain")
    with pytest.raises(ValueError, match="more elements than the file can contain"):
        unpack(schema.ProgramT, memoryview(data))


def test_a_string_that_many_tables_share() -> None:
    plan = plan_of(packed())
    with pytest.raises(DelegatecError, match="more elements than the file can contain"):
        [plan.text("Name") for _ in range(1000)]


def test_tables_that_many_references_share() -> None:
    message = message_of(lambda: lists_of(plan_of(packed(2**14))))
    assert message.endswith(": more tables than the file can contain")
    with pytest.raises(ValueError, match="more tables than the file can contain"):
        unpack(schema.ProgramT, memoryview(packed(2**14, items=[])))


def test_errors_of_readers_name_the_field() -> None:
    assert message_of(lambda: plan_of(packed()).fail("it is odd")) == "ExecutionPlan[0]: it is odd"
    assert message_of(lambda: lists_of_no_type(plan_of(packed()))).endswith("unknown type of Val: 7")


def lists_of_no_type(plan: Table) -> list[Any]:
    return [value.union("Val", {}) for value in plan.children("Values")]
