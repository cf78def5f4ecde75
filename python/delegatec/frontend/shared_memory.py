# SPDX-License-Identifier: Apache-2.0
"""Check for mutable tensors that share memory with other tensors of the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.export import ExportedProgram

from delegatec.diagnostics import Diagnostic
from delegatec.edge.program import CONSTANT_KINDS
from delegatec.edge.state import written_state
from delegatec.frontend.model import Model


def shared_memory_problems(programs: Mapping[str, ExportedProgram], model: Model) -> Iterator[Diagnostic]:
    """Returns DC123 for each tensor that a method writes to, if another tensor in use shares its memory.

    torch.export would make them independent tensors. One tensor with two names is fine: torch.export uses a
    single name for it.

    Args:
        programs: all methods of the model, after `adopt_state`.
        model: the model that they were exported from.
    """
    written = written_state(programs.values())
    if not written:
        return
    used = dict(pair for program in programs.values() for pair in _used(program))
    for name in sorted(written & used.keys()):
        for other in sorted(used.keys() - {name}):
            if _overlap(used[name], used[other]) and not (other in written and other < name):
                yield Diagnostic(
                    code="DC123",
                    message=f'the module writes to "{name}", which shares memory with "{other}"',
                    location=model.location,
                    expected="mutable state in separate memory",
                    help=f'make one a view of the other in the method that uses it, or clone() "{other}"',
                )


def _used(program: ExportedProgram) -> Iterator[tuple[str, torch.Tensor]]:
    """Returns names and values of the module's tensors that a program uses."""
    signature = program.graph_signature
    for node, spec in zip(program.graph.find_nodes(op="placeholder"), signature.input_specs, strict=True):
        if spec.kind in CONSTANT_KINDS and spec.target is not None and node.users:
            tensor = program.state_dict.get(spec.target)
            tensor = program.constants[spec.target] if tensor is None else tensor
            if tensor.layout is torch.strided and tensor.device.type == "cpu":  # DC119 reports others
                yield spec.target, tensor


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors overlap in memory."""
    if not (one.numel() and other.numel()):
        return False
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    (first, last), (start, end) = _span(one), _span(other)
    return first < end and start < last


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the address of a tensor's first byte, and the address after its last."""
    farthest = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (farthest + 1) * tensor.element_size()
