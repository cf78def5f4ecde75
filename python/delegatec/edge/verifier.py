# SPDX-License-Identifier: Apache-2.0
"""Verifier of edge programs. Violations are bugs in the compiler."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, writes
from delegatec.edge.control_flow import bodies_of, calls, operands
from delegatec.edge.fakes import no_shortcuts
from delegatec.edge.program import CONSTANT_KINDS, EdgeProgram


def verify(program: EdgeProgram) -> None:
    """Asserts that graph, metadata and signature are consistent; bodies need separate calls."""
    program.graph.lint()
    # a check of strides must not specialize dynamic sizes
    with no_shortcuts():
        for node in program.graph.nodes:
            if node.op == "call_function":
                _verify_call(node)
    for node in program.graph.nodes:
        if node.op in ("placeholder", "call_function"):
            assert "val" in node.meta, f"{node.name} has no meta['val']"
    placeholders = program.placeholders()
    assert len(placeholders) == len(program.input_specs), "placeholders and input specs do not match"
    for node, spec in zip(placeholders, program.input_specs, strict=True):
        assert node.name == spec.arg.name, f"placeholder {node.name} has the spec of {spec.arg.name}"
        held = node.name in program.constants
        assert held == (spec.kind in CONSTANT_KINDS), (
            f"{node.name} is {spec.kind} with{'' if held else 'out'} a value"
        )
    results = program.output_node().args[0]
    assert isinstance(results, (tuple, list)) and len(results) == len(program.output_specs)
    for call in calls(program):
        for body in bodies_of(program, call):
            count = len(list(body.user_inputs()))
            assert count == len(operands(call)), f"{body.method} has {count} operands"


def _verify_call(node: Node) -> None:
    target = node.target
    if isinstance(target, OpOverload):
        assert not _writes(node), f"{node.name} calls {target}, which writes to its argument"
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor):
            assert val.is_contiguous(), f"{node.name} has strides {val.stride()} for {tuple(val.shape)}"
    else:
        assert is_callable(target), f"{node.name} calls {target}, which is not an operator"


def _writes(node: Node) -> bool:
    """Whether a call writes to an argument. This batch norm updates its statistics only while training."""
    if node.target is torch.ops.aten._native_batch_norm_legit.default:
        return bool(bind(node)["training"])
    return writes(node)


def is_callable(target: Any) -> bool:
    """Whether a program may call `target`: an operator, `getitem`, or a function on symbolic scalars."""
    return (
        isinstance(target, (OpOverload, HigherOrderOperator))
        or target in (operator.getitem, round)
        or getattr(target, "__module__", "") in ("_operator", "builtins", "math", "torch")
    )
