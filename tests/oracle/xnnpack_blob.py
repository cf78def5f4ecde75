# SPDX-License-Identifier: Apache-2.0
"""One blob in the stock runtime: a program around it, written by our writer."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import torch

from delegatec.program import write_program
from tests.oracle import blob_program
from tests.oracle.oracle import mapped


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
    program = blob_program.program_of(
        "XnnpackBackend", blob, inputs, outputs, named_data=named_data, dynamic=dynamic
    )
    file = io.BytesIO()
    write_program(program, file)
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
