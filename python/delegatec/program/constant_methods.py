# SPDX-License-Identifier: Apache-2.0
"""Emission of constant methods: outputs without instructions."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from delegatec.edge.constant_methods import flatten
from delegatec.program.constants import ConstantPool
from delegatec.program.emitted import EmittedMethod, TensorValue, Value
from delegatec.program.planning.memory_plan import MemoryPlan
from delegatec.program.scalar_type import SCALAR_TYPES
from delegatec.program.specs import spec_text


def emit_constant_method(name: str, value: Any, pool: ConstantPool) -> EmittedMethod:
    """Emits a method that returns a constant value.

    Its tensors are constants of the file, whose memory the runtime returns to the caller.

    Args:
        name: name of the method.
        value: its result, checked by `check_constant_methods`.
        pool: receives its tensors.
    """
    leaves, out_spec = flatten(value)
    values = [_value(leaf, name, pool) for leaf in leaves]
    return EmittedMethod(
        name=name,
        values=values,
        inputs=[],
        outputs=list(range(len(values))),
        operators=[],
        instructions=[],
        debug_handles=[],
        delegates=[],
        memory_plan=MemoryPlan(),
        in_spec=spec_text(tree_flatten(((), {}))[1]),
        out_spec=spec_text(out_spec),
    )


def _value(leaf: Any, name: str, pool: ConstantPool) -> Value:
    if not isinstance(leaf, torch.Tensor):
        result: Value = leaf
        return result
    plain = leaf.detach().contiguous()
    index = pool.add(plain, name)
    return TensorValue(SCALAR_TYPES[plain.dtype], tuple(plain.shape), constant_index=index)
