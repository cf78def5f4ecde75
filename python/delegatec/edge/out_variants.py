# SPDX-License-Identifier: Apache-2.0
"""From a functional operator to the kernel that computes it: its out variant."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
from torch._ops import OpOverload

from delegatec.edge.kernels import KERNELS

aten = torch.ops.aten

# Views, which the runtime computes with kernels that copy. Memory planning elides most of them.
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


@cache
def out_variant(target: Any) -> OpOverload | None:
    """The overload that writes what `target` returns to given tensors, where the runtime has its kernel.

    Args:
        target: a functional overload; for anything else the answer is None.
    """
    if not isinstance(target, OpOverload):
        return None
    functional = VIEW_COPIES.get(target, target)
    packet = getattr(getattr(torch.ops, functional.namespace), functional._opname)
    for name in packet.overloads():
        candidate: OpOverload = getattr(packet, name)
        if kernel_name(candidate) in KERNELS and _writes_results_of(candidate, functional):
            return candidate
    return None


def kernel_name(operator: OpOverload) -> str:
    """The name under which the runtime registers a kernel: "aten::add.out"."""
    return f"{operator.namespace}::{operator._opname}" + (
        "" if operator._overloadname == "default" else f".{operator._overloadname}"
    )


def out_arguments(operator: OpOverload) -> list[str]:
    """Names of the arguments that an out variant writes to, in the order of its results."""
    return [argument.name for argument in operator._schema.arguments if argument.is_out]


# What a functional factory or conversion takes and its out variant reads off the tensor it writes to.
_OF_THE_OUTPUT = frozenset({"dtype", "layout", "device", "pin_memory"})


def _writes_results_of(candidate: OpOverload, functional: OpOverload) -> bool:
    inputs = [a for a in candidate._schema.arguments if not a.is_out]
    outs = [a for a in candidate._schema.arguments if a.is_out]
    returns = functional._schema.returns
    # a list of results would be one output here, and several nodes there
    if not outs or len(outs) != len(returns) or any(str(a.type) != "Tensor" for a in (*outs, *returns)):
        return False
    names = {argument.name for argument in inputs}
    wanted = [a for a in functional._schema.arguments if a.name in names or a.name not in _OF_THE_OUTPUT]
    return [(a.name, str(a.type)) for a in inputs] == [(a.name, str(a.type)) for a in wanted]
