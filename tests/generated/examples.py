# SPDX-License-Identifier: Apache-2.0
"""The inputs of the compiler for a program, and the calls that its results are compared for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from delegatec.frontend.model import Method, Model
from tests.generated.program import FORWARD, STEP, Input, Program, module
from tests.generated.values import make

_LARGEST: Final = 9
# How dynamic sizes are declared: `auto` and `dynamic` leave to torch.export which ones are equal.
DIMS: Final[dict[str, Callable[[int], Any]]] = {
    "auto": lambda size: Dim.AUTO(min=1, max=_LARGEST),
    "dynamic": lambda size: Dim.DYNAMIC(min=1, max=_LARGEST),
    "named": lambda size: Dim(f"d{size}", min=1, max=_LARGEST),
    "empty": lambda size: Dim.AUTO(min=0, max=_LARGEST),
    "narrow": lambda size: Dim(f"d{size}", min=max(size - 1, 1), max=size + 1),
    "multiple": lambda size: (
        2 * Dim(f"d{size // 2}", min=1, max=_LARGEST // 2)
        if size % 2 == 0
        else Dim(f"d{size}", min=1, max=_LARGEST)
    ),
}


class Call(NamedTuple):
    """One call of a program.

    Attributes:
        method: that is called.
        inputs: its arguments.
        is_guarded: whether torch.export's guards exclude these sizes, although the ranges of the exported
            program include them.
    """

    method: str
    inputs: list[Tensor]
    is_guarded: bool = False


def tensor_of(program: Program, wanted: Input) -> Tensor:
    """Returns the value of an input, or the initial value of a tensor of the module."""
    literal = program.literals.get(wanted.name)
    return make(wanted) if literal is None else literal.clone()


def model_of(program: Program) -> Model:
    """Returns the model of a program; inputs with an alias have the very tensor of another one as example."""
    tensors = {each.name: tensor_of(program, each) for each in program.inputs}
    made = module(program, tensors)
    names = [name for name in program.aliases.values() if name.startswith("self.")]
    own = {name: eval(name, {"self": made}) for name in names}  # such as self.d0['t']
    examples = tuple((tensors | own)[program.aliases.get(each.name, each.name)] for each in program.arguments)
    shapes = tuple(
        {dim: DIMS[program.dims](each.shape[dim]) for dim in each.dynamic} or None
        for each in program.arguments
    )
    methods = {STEP: Method(STEP, examples, None, shapes or None)} if program.step else {}
    return Model(made, examples, dynamic_shapes=shapes or None, methods=methods)


def calls_of(program: Program, methods: Mapping[str, ExportedProgram]) -> list[Call]:
    """Returns calls: with the examples, at the bounds and the middle of dynamic sizes, several for state."""
    tensors = {each.name: tensor_of(program, each) for each in program.inputs}
    first = [tensors[program.aliases.get(each.name, each.name)].clone() for each in program.arguments]
    calls = [Call(FORWARD, first)]
    is_dynamic = any(each.dynamic for each in program.inputs)
    has_state = not all(each.is_constant for each in program.buffers)
    again = is_dynamic or has_state or program.aliases or program.step or _holds_state(program)
    for number in range(3 if is_dynamic else 2 if again else 0):
        calls.append(_call(program, FORWARD, methods[FORWARD], number))
    if is_dynamic:  # the smallest sizes first: a runtime may plan memory at the first call
        calls[:2] = reversed(calls[:2])
    if program.step:
        stateful = [_call(program, STEP, methods[STEP], number) for number in range(len(calls))]
        calls = [call for pair in zip(calls, stateful, strict=True) for call in pair]
    return calls


def _holds_state(program: Program) -> bool:
    return any("held(" in node.template or "__dict__" in node.template for node in program.nodes)


def _call(program: Program, method: str, exported: ExportedProgram, number: int) -> Call:
    """Returns a call with other values: 0 with the smallest sizes, 1 with the largest, 2 in between."""
    names = list(exported.graph_signature.user_inputs)
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    sizes: dict[Any, int] = {}
    inputs = []
    for each, name in zip(program.arguments, names, strict=True):
        shape = nodes[name].meta["val"].shape if name in nodes else each.shape
        other = tuple(_size(size, exported, sizes, number) for size in shape)
        literal = program.literals.get(each.name)
        if literal is not None and other == each.shape:
            inputs.append(literal.clone())
        else:
            inputs.append(make(replace(each, seed=each.seed + 1 + number), other))
    return Call(method, inputs, _is_guarded(nodes, sizes))


def _size(size: Any, exported: ExportedProgram, sizes: dict[Any, int], number: int) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    for symbol in expression.free_symbols:
        limits = exported.range_constraints[symbol]
        low, high = int(limits.lower), min(int(limits.upper), _LARGEST)
        sizes.setdefault(symbol, (low, high, (low + high) // 2)[number % 3])
    return int(expression.subs(sizes))


def _is_guarded(nodes: Mapping[str, torch.fx.Node], sizes: dict[Any, int]) -> bool:
    values = [node.meta.get("val") for node in nodes.values()]
    environments = {value.fake_mode.shape_env for value in values if hasattr(value, "fake_mode")}
    guards = [guard.expr for each in environments if each is not None for guard in each.guards]
    return any(guard.subs(sizes) == False for guard in guards)  # noqa: E712 - of sympy
