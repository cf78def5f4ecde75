# SPDX-License-Identifier: Apache-2.0
"""One blob in the stock runtime: a program around it, written by our writer."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import torch

from delegatec.delegation import NamedData
from delegatec.program import EmittedProgram, MemoryPlan, write_program
from delegatec.program.emitted import Delegate, DelegateCall, EmittedMethod, TensorValue
from delegatec.program.scalar_type import SCALAR_TYPES
from tests.oracle.oracle import mapped

_ALIGNMENT = 64


def program_of(
    blob: bytes,
    named_data: Mapping[str, bytes],
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    *,
    dynamic: bool = False,
) -> bytes:
    """Returns a program that calls one delegate.

    Args:
        blob: of the delegate.
        named_data: key -> bytes.
        inputs: of their dtypes and largest shapes.
        outputs: likewise.
        dynamic: whether sizes may be smaller at run time.
    """
    values = []
    end = 0
    for tensor in [*inputs, *outputs]:
        values.append(
            TensorValue(SCALAR_TYPES[tensor.dtype], tuple(tensor.shape), offset=end, is_dynamic=dynamic)
        )
        end += -(-max(1, tensor.nbytes) // _ALIGNMENT) * _ALIGNMENT
    ids = tuple(range(len(values)))
    named = {key: NamedData(data) for key, data in named_data.items()}
    method = EmittedMethod(
        name="forward",
        values=list(values),
        inputs=list(ids[: len(inputs)]),
        outputs=list(ids[len(inputs) :]),
        operators=[],
        instructions=[DelegateCall(0, ids)],
        debug_handles=[()],
        delegates=[Delegate("XnnpackBackend", (blob,), (), "case", {}, named)],
        memory_plan=MemoryPlan(arena_size=end),
    )
    file = io.BytesIO()
    write_program(EmittedProgram([method], named_data=named), file)
    return file.getvalue()


def run_in_runtime(
    blob: bytes,
    named_data: Mapping[str, bytes],
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Runs a blob once in the stock runtime; see `program_of`.

    Raises:
        RuntimeError: the runtime refuses the blob, or its run fails.
    """
    return mapped(program_of(blob, named_data, inputs, outputs)).run(inputs)
