# SPDX-License-Identifier: Apache-2.0
"""Minimizes a program that fails: fewer outputs and rows, then smaller and simpler inputs."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from tests.generated.examples import tensor_of
from tests.generated.expected import EAGER_ERRORS
from tests.generated.outcomes import CRASH, HANG, Outcome, outcomes
from tests.generated.processes import last_of, results
from tests.generated.program import FORWARD, Input, Node, Program, live, module
from tests.generated.targets import TARGETS

_SECONDS: Final = 60.0
_SECONDS_PER_PROGRAM: Final = 60.0
# Seconds after the deadline in which the last candidate may end.
_GRACE: Final = 30


def shrunk(program: Program, outcome: Outcome, seconds: float = _SECONDS) -> Program:
    """Returns a smaller program with the same kind of outcome for the same target.

    Args:
        program: a program.
        outcome: its failure.
        seconds: how long to search.
    """
    is_end = outcome.kind in (CRASH, HANG)

    def found(candidate: Program) -> list[Outcome]:
        if not is_end:
            return outcomes(candidate, (outcome.target,))
        # It ends a process, of which the program is the first.
        ((_, result),) = results([candidate], lambda each: each, TARGETS, _SECONDS_PER_PROGRAM)
        return result

    def fails(candidate: Program) -> bool:
        return any(each.kind == outcome.kind for each in found(candidate))

    smaller = minimized(program, fails, time.monotonic() + seconds)
    found_last = deque(smaller, maxlen=1) if is_end else last_of(smaller, int(seconds) + _GRACE)
    return found_last[0] if found_last else program


def minimized(program: Program, fails: Callable[[Program], bool], deadline: float) -> Iterator[Program]:
    """Yields smaller and smaller programs for which `fails` holds, until a deadline.

    Each step is tried until it does not make the program smaller any more, and then the steps again.
    """
    changed = True
    while changed:
        changed = False
        for step in (_features, _outputs, _rows, _inputs):
            for candidate in step(program):
                if time.monotonic() > deadline:
                    return
                if fails(candidate):
                    yield candidate
                    program, changed = candidate, True
                    break


def _features(program: Program) -> Iterator[Program]:
    if program.step:
        nodes = tuple(node for node in program.nodes if node.method == FORWARD)
        yield live(replace(program, nodes=nodes, step=()))
        for i in range(len(program.step) if len(program.step) > 1 else 0):
            yield _without_dead(replace(program, step=program.step[:i] + program.step[i + 1 :]))
    if program.aliases:
        yield replace(program, aliases={})
    if program.dims != "auto":
        yield replace(program, dims="auto")


def _outputs(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield _without_dead(replace(program, outputs=(name,)))
        for i in range(len(program.outputs)):
            yield _without_dead(replace(program, outputs=program.outputs[:i] + program.outputs[i + 1 :]))


def _without_dead(program: Program) -> Program:
    """Removes rows that no output needs; statements stay, as they may write to what one needs."""
    used = {*program.outputs, *program.step}
    nodes = []
    for node in reversed(program.nodes):
        if not node.name or node.name in used:
            nodes.append(node)
            used |= node.operands()
    return live(replace(program, nodes=tuple(reversed(nodes))))


def _rows(program: Program) -> Iterator[Program]:
    count = len(program.nodes)
    # halves first, to be quick
    size = count // 2
    while size >= 1:
        for start in range(0, count, size):
            yield from _cut(program, range(start, min(start + size, count)))
        size //= 2
    for i, node in enumerate(program.nodes):
        for operand in sorted(node.operands()):
            if node.name:
                yield _bypass(program, i, operand)


def _cut(program: Program, rows: range) -> Iterator[Program]:
    """Replaces rows by inputs with their results."""
    captured = _captured(program, rows.stop)
    if captured is None:
        return
    removed = [program.nodes[i] for i in rows]
    rest = program.nodes[: rows.start] + program.nodes[rows.stop :]
    used = {name for node in rest for name in node.operands()} | {*program.outputs, *program.step}
    inputs, literals, copies = list(program.inputs), dict(program.literals), []
    for node in removed:
        if node.name in used and node.name in captured:
            taken = {each.name for each in inputs}
            name = next(f"x{i}" for i in range(1000) if f"x{i}" not in taken)
            value = captured[node.name]
            inputs.append(Input(name, value.dtype, tuple(value.shape), "literal"))
            literals[name] = value
            copies.append(Node(node.name, "{t}.clone()", {"t": name}, node.method))
    nodes = (*program.nodes[: rows.start], *copies, *program.nodes[rows.stop :])
    if len(copies) < len(removed) or any(node.template != "{t}.clone()" for node in removed):
        yield _without_dead(replace(program, inputs=tuple(inputs), nodes=nodes, literals=literals))


def _bypass(program: Program, index: int, operand: str) -> Program:
    node = program.nodes[index]
    nodes = [each.renamed(node.name, operand) for each in program.nodes[:index] + program.nodes[index + 1 :]]
    outputs, step = (
        tuple(operand if name == node.name else name for name in names)
        for names in (program.outputs, program.step)
    )
    return _without_dead(replace(program, nodes=tuple(nodes), outputs=outputs, step=step))


def _captured(program: Program, stop: int) -> dict[str, Tensor] | None:
    """Returns the values after some rows of a method in eager mode."""
    method = program.nodes[stop - 1].method
    nodes = tuple(node for node in program.nodes[:stop] if node.method == method)
    names = tuple(node.name for node in nodes if node.name)
    nodes = tuple(replace(node, method=FORWARD) for node in nodes)
    partial = replace(program, nodes=nodes, outputs=names, step=())
    tensors = {each.name: tensor_of(program, each) for each in program.inputs}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = module(partial, tensors)(*(tensors[each.name] for each in partial.arguments))
    except EAGER_ERRORS:
        return None
    return {name: value.clone().contiguous() for name, value in zip(names, results, strict=True)}


def _inputs(program: Program) -> Iterator[Program]:
    for i, each in enumerate(program.inputs):
        if each.dynamic:
            yield _with(program, i, replace(each, dynamic=()))
        if each.is_constant and not any(o.name == f"x9{i}" for o in program.inputs):
            yield _renamed(program, i, f"x9{i}")
    sizes = sorted({size for each in program.inputs for size in each.shape if size > 1}, reverse=True)
    for size in sizes:
        for smaller in sorted({1, 2, size - 1} & set(range(1, size))):
            yield _resized(program, size, smaller)
    for i, each in enumerate(program.inputs):
        for dim, size in enumerate(each.shape):
            for smaller in sorted({1, size // 2} & set(range(1, size))):
                shape = (*each.shape[:dim], smaller, *each.shape[dim + 1 :])
                yield _with(program, i, replace(each, shape=shape))
        for kind in ("ones", "dyadic", "normal"):
            if each.values == "literal" or (
                each.values in ("normal", "special", "large") and kind != "normal"
            ):
                yield _with(program, i, replace(each, values=kind))
        if each.dtype in (torch.float16, torch.bfloat16, torch.float64):
            yield _with(program, i, replace(each, dtype=torch.float32))


def _resized(program: Program, size: int, smaller: int) -> Program:
    for i, each in enumerate(program.inputs):
        shape = tuple(smaller if s == size else s for s in each.shape)
        if shape != each.shape:
            program = _with(program, i, replace(each, shape=shape))
    return program


def _with(program: Program, index: int, changed: Input) -> Program:
    """Replaces an input; elements of a literal stay where they are."""
    inputs = (*program.inputs[:index], changed, *program.inputs[index + 1 :])
    literals = dict(program.literals)
    literal = literals.pop(changed.name, None)
    if literal is not None and changed.values == "literal":
        literals[changed.name] = (
            literal[tuple(slice(0, size) for size in changed.shape)].to(changed.dtype).contiguous()
        )
    return replace(program, inputs=inputs, literals=literals)


def _renamed(program: Program, index: int, name: str) -> Program:
    old = program.inputs[index]
    inputs = (*program.inputs[:index], replace(old, name=name), *program.inputs[index + 1 :])
    nodes = tuple(node.renamed(old.name, name) for node in program.nodes)
    outputs, step = (
        tuple(name if output == old.name else output for output in names)
        for names in (program.outputs, program.step)
    )
    literals = {name if key == old.name else key: value for key, value in program.literals.items()}
    aliases = {a: name if b == old.name else b for a, b in program.aliases.items()}
    return replace(
        program,
        inputs=inputs,
        nodes=nodes,
        outputs=outputs,
        step=step,
        aliases=aliases,
        literals=literals,
    )
