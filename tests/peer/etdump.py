# SPDX-License-Identifier: Apache-2.0
"""ETDumps: the log of a run by the peer's runtime, if it is built with its event tracer.

The runtime in the wheel has none, so that runs are made up here, with the peer's own classes and serializer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import torch
from executorch.devtools.etdump import schema_flatcc as flatcc
from executorch.devtools.etdump.serialize import serialize_to_etdump_flatcc
from executorch.exir.scalar_type import ScalarType

_NO_ID = -1  # an event that is not one of a delegate's own
_MICROSECOND = 1000
_SCALAR_TYPES = {torch.float32: ScalarType.FLOAT, torch.int64: ScalarType.LONG}


def timed(name: str, instruction: int, delegate_id: int | str | None = None) -> flatcc.Event:
    """An instruction that took a microsecond, or one of the instructions of a delegate."""
    return flatcc.Event(
        profile_event=flatcc.ProfileEvent(
            name=name,
            chain_index=0,
            instruction_id=instruction,
            delegate_debug_id_int=delegate_id if isinstance(delegate_id, int) else _NO_ID,
            delegate_debug_id_str=delegate_id if isinstance(delegate_id, str) else "",
            delegate_debug_metadata=None,
            start_time=instruction * _MICROSECOND,
            end_time=(instruction + 1) * _MICROSECOND,
        ),
        allocation_event=None,
        debug_event=None,
    )


def logged(instruction: int, value: torch.Tensor, buffer: bytearray) -> flatcc.Event:
    """An instruction that logged its results; the bytes are in the debug buffer."""
    offset = len(buffer)
    buffer += value.contiguous().numpy().tobytes()
    tensor = flatcc.Tensor(
        scalar_type=_SCALAR_TYPES[value.dtype],
        sizes=list(value.shape),
        strides=list(value.contiguous().stride()),
        offset=offset,
    )
    entry: Any = flatcc.Value(
        val=flatcc.ValueType.TENSOR.value,
        tensor=tensor,
        tensor_list=None,
        int_value=None,
        float_value=None,
        double_value=None,
        bool_value=None,
        output=None,
    )
    return flatcc.Event(
        profile_event=None,
        allocation_event=None,
        debug_event=flatcc.DebugEvent(
            name="",
            chain_index=0,
            instruction_id=instruction,
            delegate_debug_id_int=_NO_ID,
            delegate_debug_id_str="",
            debug_entry=entry,
        ),
    )


def etdump(events: Sequence[flatcc.Event]) -> bytes:
    """The dump of one run of `forward`."""
    run = flatcc.RunData(name="forward", bundled_input_index=_NO_ID, allocators=[], events=list(events))
    content = serialize_to_etdump_flatcc(flatcc.ETDumpFlatCC(version=0, run_data=[run]))
    return struct.pack("<I", len(content)) + content
