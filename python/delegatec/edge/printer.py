# SPDX-License-Identifier: Apache-2.0
"""Deterministic text form of edge programs, independent of node names."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.program import CONSTANT_KINDS, EdgeProgram
from delegatec.edge.rule_names import RULE

_DTYPES = {
    torch.bfloat16: "bf16",
    torch.bool: "bool",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.int8: "i8",
    torch.uint8: "u8",
}


def print_program(program: EdgeProgram, rules: bool = False) -> str:
    """Prints a line per node: `%3: f32[1, 10] = aten.addmm.default(%0, %2, %1)  # model.py:12`.

    Constants come first, by their names in the model; values are numbered in order. Bodies follow their call
    of control flow.

    Args:
        program: the program.
        rules: whether to print which rules led to each node.
    """
    return "\n".join([f"{program.method}{_signature(program)}:", *_lines(program, rules)]) + "\n"


def _signature(program: EdgeProgram) -> str:
    inputs = [f"%{node.name}: {_type(node.meta['val'])}" for node in program.user_inputs()]
    return f"({', '.join(inputs)})"


def _lines(program: EdgeProgram, rules: bool) -> list[str]:
    names: dict[Node, str] = {}
    specs = {node.name: spec for node, spec in zip(program.placeholders(), program.input_specs, strict=True)}
    lines: list[str] = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            if spec.kind in CONSTANT_KINDS:
                names[node] = f"@{spec.target or node.name}"
                lines.append(f"  {names[node]}: {_type(node.meta['val'])}")
            else:
                names[node] = f"%{node.name}"
        elif node.op == "output":
            lines.append(f"  return {_text(node.args[0], names)}")
        elif node.name in program.bodies:
            names[node] = node.name
        else:
            names[node] = str(node.target) if node.op == "get_attr" else f"%{len(names)}"
            comment = _source(node) + (_rules(node) if rules else "")
            call = f"{_type(node.meta.get('val'))} = {_call(node, names)}"
            lines.append(f"  {names[node]}: {call}{f'  # {comment}' if comment else ''}")
            for source in node.all_input_nodes:
                if source.name in program.bodies:
                    body = program.bodies[source.name]
                    lines.append(f"    {source.name}{_signature(body)}:")
                    lines += (f"    {line}" for line in _lines(body, rules))
    return lines


def _call(node: Node, names: dict[Node, str]) -> str:
    arguments = [_text(argument, names) for argument in node.args]
    arguments += [f"{name}={_text(value, names)}" for name, value in node.kwargs.items()]
    target: Any = node.target
    if not isinstance(target, (OpOverload, str)):
        target = getattr(target, "__name__", str(target))
    return f"{target}({', '.join(arguments)})"


def _text(value: Any, names: dict[Node, str]) -> str:
    if isinstance(value, Node):
        return names[value]
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_text(item, names) for item in value)}]"
    return str(value)


def _type(val: Any) -> str:
    if isinstance(val, torch.Tensor):
        return f"{_DTYPES.get(val.dtype, str(val.dtype))}[{', '.join(str(size) for size in val.shape)}]"
    if isinstance(val, (tuple, list)):
        return f"({', '.join(_type(item) for item in val)})"
    return type(val).__name__


def _source(node: Node) -> str:
    source = node.meta.get("source")
    return str(source.via or source) if source is not None else ""


def _rules(node: Node) -> str:
    names = node.meta.get(RULE)
    return f" by {' > '.join(names)}" if names else ""
