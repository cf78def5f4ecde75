# SPDX-License-Identifier: Apache-2.0
"""Reader of a method: an execution plan with its instructions and delegates."""

from __future__ import annotations

from collections.abc import Callable

from delegatec_schemas import program as schema

from delegatec.flatbuffer import Table
from delegatec.program.reader.data import Data
from delegatec.program.reader.model import (
    Chain,
    CompileSpec,
    Delegate,
    DelegateCall,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    Method,
    MoveCall,
)
from delegatec.program.reader.values import read_value

_MEMBERS = {
    getattr(schema.InstructionArguments, name): getattr(schema, name)
    for name in ("KernelCall", "DelegateCall", "MoveCall", "JumpFalseCall", "FreeCall")
}
# The largest plausible arena; the reader allocates nothing of this size.
_MAX_ARENA = 2**62


def read_method(plan: Table, data: Data) -> Method:
    """Reads an ExecutionPlan, without checking its indices into itself.

    Args:
        plan: the table.
        data: the bytes of tensors and delegates.
    """
    arena_bytes: tuple[int, ...] = plan.array("NonConstBufferSizes")
    if invalid := [size for size in arena_bytes if not 0 <= size <= _MAX_ARENA]:
        plan.fail(f"invalid arena size {invalid[0]}")
    trees = plan.child("ContainerMetaType")
    return Method(
        name=plan.text("Name"),
        inputs=plan.array("Inputs"),
        outputs=plan.array("Outputs"),
        values=tuple(read_value(table, data, arena_bytes) for table in plan.children("Values")),
        operators=tuple(map(_operator, plan.children("Operators"))),
        chains=tuple(map(_chain, plan.children("Chains"))),
        delegates=tuple(_delegate(table, data) for table in plan.children("Delegates")),
        arena_bytes=arena_bytes,
        in_spec=trees.text("EncodedInpStr") if trees is not None else "",
        out_spec=trees.text("EncodedOutStr") if trees is not None else "",
    )


def _chain(table: Table) -> Chain:
    return Chain(tuple(map(_instruction, table.children("Instructions"))))


def _operator(table: Table) -> str:
    name, overload = table.text("Name"), table.text("Overload")
    return f"{name}.{overload}" if overload else name


def _delegate(table: Table, data: Data) -> Delegate:
    processed = table.child("Processed")
    if processed is None:
        table.fail("missing data")
    blob, segment = data.blob(processed)
    specs = table.children("CompileSpecs")
    return Delegate(
        id=table.text("Id"),
        blob=blob,
        segment=segment,
        compile_specs=tuple(CompileSpec(spec.text("Key"), bytes(spec.blob("Value"))) for spec in specs),
    )


def _instruction(table: Table) -> Instruction:
    tag, call = table.union("InstrArgs", _MEMBERS)
    if call is None:
        table.fail("missing instruction")
    return _READERS[tag](call)


_READERS: dict[int, Callable[[Table], Instruction]] = {
    schema.InstructionArguments.KernelCall: lambda t: KernelCall(t.scalar("OpIndex"), t.array("Args")),
    schema.InstructionArguments.DelegateCall: lambda t: DelegateCall(
        t.scalar("DelegateIndex"), t.array("Args")
    ),
    schema.InstructionArguments.MoveCall: lambda t: MoveCall(t.scalar("MoveFrom"), t.scalar("MoveTo")),
    schema.InstructionArguments.JumpFalseCall: lambda t: JumpFalseCall(
        t.scalar("CondValueIndex"), t.scalar("DestinationInstruction")
    ),
    schema.InstructionArguments.FreeCall: lambda t: FreeCall(t.scalar("ValueIndex")),
}
