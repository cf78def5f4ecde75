# SPDX-License-Identifier: Apache-2.0
"""Programs of one blob, and names of tensors by their contents: the frame of outputs that are recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import torch

from delegatec.delegation import NamedData
from delegatec.program import EmittedProgram, MemoryPlan
from delegatec.program.emitted import Delegate, DelegateCall, EmittedMethod, TensorValue
from delegatec.program.scalar_type import SCALAR_TYPES

_ALIGNMENT: Final = 64


def program_of(
    backend: str,
    blob: bytes,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    *,
    named_data: Mapping[str, bytes] = MappingProxyType({}),
    dynamic: bool = False,
) -> EmittedProgram:
    """Returns a program whose only instruction calls a delegate.

    Args:
        backend: id of the delegate's backend.
        blob: the blob.
        inputs: tensors of the shapes and dtypes of its inputs.
        outputs: likewise, of its outputs.
        named_data: key -> bytes of the delegate's data outside of its blob.
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
        delegates=[Delegate(backend, (blob,), (), "case", {}, named)],
        memory_plan=MemoryPlan(arena_size=end),
    )
    return EmittedProgram([method], named_data=named)


def content_name(tensor: torch.Tensor) -> str:
    """Returns a name by which equal tensors are stored once."""
    data = tensor.contiguous().flatten().view(torch.uint8).numpy()
    content = f"{tensor.dtype}{list(tensor.shape)}".encode() + data.tobytes()
    return hashlib.sha256(content).hexdigest()[:12]
