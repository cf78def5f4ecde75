# SPDX-License-Identifier: Apache-2.0
"""Loops in a graph without bodies: calls at their borders, and the order in which all calls run.

A quantizer then sees a value of a body like any other: it has one range, for all steps, and the state of a
loop shares its range with what the loop starts with and what a step returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.node import has_side_effect
from torch.utils import _pytree as pytree


def row(rows: Tensor, loop: int) -> Tensor:
    """Represents the row of a tensor that a step reads. Calls of these functions are run by `run_loop`."""
    raise _unrunnable()


def state(initial: Tensor, loop: int, index: int) -> Tensor:
    """Represents state at the beginning of a step."""
    raise _unrunnable()


def carry(value: Tensor, loop: int, index: int) -> Tensor:
    """Represents the next value of a state; after the loop, the last one."""
    raise _unrunnable()


def stacked(value: Tensor, loop: int) -> Tensor:
    """Represents a result of a step; after the loop, the results of all steps."""
    raise _unrunnable()


def _unrunnable() -> Exception:
    return AssertionError("a call at the border of a loop is run with the loop")


EXITS: Final = frozenset({carry, stacked})
"""Calls that have their values after the loop."""
BORDERS: Final = EXITS | {row, state}
# A graph keeps them all: a loop carries state also if only its rows are read.
for _border in BORDERS:
    has_side_effect(_border)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Loop:
    """The calls of a loop.

    Attributes:
        number: the loop's number in calls at its border.
        nodes: the calls of a step, those at the border among them, in order.
    """

    number: int
    nodes: tuple[Node, ...]

    def calls(self, target: Any) -> list[Node]:
        """Returns the calls of a function at the border; states are in the order of their indices."""
        found = [node for node in self.nodes if node.target is target]
        return sorted(found, key=_index) if target in (state, carry) else found


def loop_of(node: Node) -> int | None:
    """Returns the number of the loop of a call at a border; None for other nodes."""
    return cast(int, node.args[1]) if node.target in BORDERS else None


def state_of(node: Node) -> Node:
    """Returns the call of `state` for one of `carry`."""
    return _counterpart(node, state)


def carry_of(node: Node) -> Node:
    """Returns the call of `carry` for one of `state`."""
    return _counterpart(node, carry)


def _counterpart(node: Node, target: Any) -> Node:
    calls: list[Node] = node.graph.find_nodes(op="call_function", target=target)
    return next(each for each in calls if each.args[1:] == node.args[1:])


def _index(node: Node) -> int:
    return cast(int, node.args[2])


def scheduled(nodes: Iterable[Node]) -> Iterator[Node | Loop]:
    """Yields nodes in an order in which they can be run, and each loop as a whole.

    What a loop reads comes before it, even if it is between the calls of its step.

    Args:
        nodes: all nodes of a graph, in order.
    """
    nodes = list(nodes)
    inside: dict[Node, int] = {}
    for node in nodes:
        number = loop_of(node)
        if number is None:
            read = (each for each in node.all_input_nodes if each in inside and each.target not in EXITS)
            number = next(map(inside.__getitem__, read), None)
        if number is not None:
            inside[node] = number
    last = {number: node for node, number in inside.items()}
    steps: dict[int, list[Node]] = {}
    # Nodes that read results of a loop whose calls are not complete, and those results.
    late: dict[Node, bool] = {}
    for node in nodes:
        number = inside.get(node)
        if number is None:
            if any(each in late for each in node.all_input_nodes):
                late[node] = True
            else:
                yield node
            continue
        steps.setdefault(number, []).append(node)
        if node.target in EXITS:
            late[node] = False
        if node is last[number]:
            yield Loop(number, tuple(steps[number]))
            yield from (each for each, is_delayed in late.items() if is_delayed)
            late.clear()


def run_loop(
    loop: Loop,
    values: dict[Node, Any],
    load: Callable[[Node, Node], Any],
    run: Callable[[Node], Any],
) -> None:
    """Runs a loop.

    Args:
        loop: the loop.
        values: node -> its value; gets those of the last step, and the results of the loop.
        load: returns an operand of a call: of (operand, call).
        run: computes a call that is not at the border.
    """
    rows = {node: load(_operand(node), node) for node in loop.calls(row)}
    states = {node.args[2]: load(_operand(node), node) for node in loop.calls(state)}
    results: dict[Node, list[Tensor]] = {node: [] for node in loop.calls(stacked)}
    for index in range(next(iter(rows.values())).shape[0]):
        following = {}
        for node in loop.nodes:
            if node.target is row:
                values[node] = rows[node][index]
            elif node.target is state:
                values[node] = states[node.args[2]]
            elif node.target is carry:
                values[node] = following[node.args[2]] = load(_operand(node), node)
            elif node.target is stacked:
                results[node].append(load(_operand(node), node))
            else:
                values[node] = run(node)
        states.update(following)
    values.update({node: torch.stack(each) for node, each in results.items()})


def _operand(node: Node) -> Node:
    operand = node.args[0]
    assert isinstance(operand, Node)
    return operand


def called(
    model: GraphModule, arguments: Sequence[Any], keywords: Mapping[str, Any], run: Interpreter | None = None
) -> Any:
    """Calls a graph, and runs its loops; returns its outputs.

    Args:
        model: the graph.
        arguments: positional arguments.
        keywords: keyword arguments.
        run: runs the nodes.
    """
    if run is None and not any(node.target in BORDERS for node in model.graph.nodes):
        return model(*arguments, **keywords)
    run = run or Interpreter(model)
    run.args_iter = iter(pytree.tree_leaves((tuple(arguments), dict(keywords))))
    for each in scheduled(model.graph.nodes):
        if isinstance(each, Loop):
            run_loop(each, run.env, lambda operand, _: run.env[operand], run.run_node)
        elif each.op == "output":
            return run.run_node(each)
        else:
            run.env[each] = run.run_node(each)
        for node in each.nodes if isinstance(each, Loop) else (each,):
            for value in run.user_to_last_uses.get(node, ()):
                run.env.pop(value, None)
    raise AssertionError("a graph has an output")
