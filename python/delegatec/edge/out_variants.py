# SPDX-License-Identifier: Apache-2.0
"""Mapping of functional operators to the runtime's kernels: their out variants."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload

from delegatec.edge.app_kernels import named_kernels, writes_results_of
from delegatec.edge.kernels import KERNELS

aten = torch.ops.aten

# Views, for which the runtime has copying kernels. Memory planning elides most of them.
VIEW_COPIES: Final[dict[OpOverload, OpOverload]] = {
    aten.alias.default: aten.alias_copy.default,
    aten.as_strided.default: aten.as_strided_copy.default,
    aten.detach.default: aten.detach_copy.default,
    aten.diagonal.default: aten.diagonal_copy.default,
    aten.expand.default: aten.expand_copy.default,
    aten.permute.default: aten.permute_copy.default,
    aten.select.int: aten.select_copy.int,
    aten.slice.Tensor: aten.slice_copy.Tensor,
    aten.squeeze.dim: aten.squeeze_copy.dim,
    aten.squeeze.dims: aten.squeeze_copy.dims,
    aten.t.default: aten.t_copy.default,
    aten.transpose.int: aten.transpose_copy.int,
    aten.unfold.default: aten.unfold_copy.default,
    aten.unsqueeze.default: aten.unsqueeze_copy.default,
    aten.view.default: aten.view_copy.default,
}


def out_variant(target: Any) -> OpOverload | None:
    """Returns the out variant of an overload, if the runtime or the app has its kernel.

    Args:
        target: a functional overload; None is returned for anything else.
    """
    return _out_variant(target, named_kernels()) if isinstance(target, OpOverload) else None


@cache
def _out_variant(target: OpOverload, named: frozenset[str]) -> OpOverload | None:
    functional = VIEW_COPIES.get(target, target)
    packet = getattr(getattr(torch.ops, functional.namespace), functional._opname)
    for overload in packet.overloads():
        candidate: OpOverload = getattr(packet, overload)
        name = kernel_name(candidate)
        if (name in KERNELS or name in named) and writes_results_of(candidate, functional):
            return candidate
    return None


def kernel_name(operator: OpOverload) -> str:
    """Returns the runtime's name of a kernel: "aten::add.out"."""
    return f"{operator.namespace}::{operator._opname}" + (
        "" if operator._overloadname == "default" else f".{operator._overloadname}"
    )


def out_arguments(operator: OpOverload) -> list[str]:
    """Returns the names of an out variant's output arguments, in the order of its results."""
    return [argument.name for argument in operator._schema.arguments if argument.is_out]
