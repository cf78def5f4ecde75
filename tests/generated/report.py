# SPDX-License-Identifier: Apache-2.0
"""A failure as a Python file that a person reads and runs."""

from __future__ import annotations

from torch import Tensor

from tests.generated.outcomes import Outcome
from tests.generated.program import Program
from tests.generated.values import make


def failure_file(program: Program, outcome: Outcome, seed: int) -> str:
    """Returns the module of a program, with its inputs."""
    tensors = {each.name: program.literals.get(each.name, None) for each in program.inputs}
    lines = [
        f'"""Seed {seed}, {outcome.target}, {outcome.kind}: {outcome.text}',
        "",
        *program.listing(),
        '"""',
        "",
        program.source().replace("import math\n", "from math import inf, nan\nimport math\n", 1),
        "",
    ]
    for each in program.inputs:
        value = tensors[each.name]
        lines.append(f"{each.attribute} = {_text(make(each) if value is None else value)}")
    buffers = ", ".join(each.attribute for each in program.buffers)
    arguments = "".join(f"{each.name}, " for each in program.arguments)
    lines.append(f"made = Generated({buffers})")
    lines += [f"print(made.{method}({arguments.strip()}))" for method in program.methods]
    return "\n".join(lines) + "\n"


def _text(value: Tensor) -> str:
    text = f"torch.tensor({value.flatten().tolist()}, dtype={value.dtype})"
    return f"{text}.reshape({tuple(value.shape)})"
