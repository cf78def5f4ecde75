# SPDX-License-Identifier: Apache-2.0
"""Applies rules until every call of a program is legal for a target."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace as replaced
from typing import Any, Protocol

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import tensors
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.bundles import bundled
from delegatec.edge.legalize.guards import NEEDS_VALUE, no_new_guards
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.program import EdgeProgram
from delegatec.edge.rule_names import rule_name
from delegatec.edge.signature import call_signature
from delegatec.edge.symbols import is_dynamic, is_scalar

# Target, arguments and keyword arguments.
_Call = tuple[Any, Sequence[Any], dict[str, Any]]


class Target(Protocol):
    """Decides which calls are legal. It does not edit nodes."""

    @property
    def full(self) -> bool:
        """Whether a rule is undone if a call that it emits cannot be legalized."""
        ...

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """Returns why a call is illegal; None if it is legal.

        Args:
            node: the call.
            facts: analysis results for its program.
        """
        ...

    def rules(self, node: Node) -> Sequence[Rule]:
        """Returns the rules for an illegal call, in order of preference."""
        ...


class Legalizer:
    """Legalizes the calls of one program.

    For a `full` target, a rule is applied only if all emitted calls are legal or can be legalized. Otherwise
    they are erased, and the next rule is tried.

    Args:
        builder: of the program; its constants and inferred values are shared by all calls.
        target: the target.
    """

    def __init__(self, builder: Builder, target: Target) -> None:
        self._builder = builder
        self._target = target
        # The calls being rewritten, and the rules, from outermost to innermost.
        self._path: list[tuple[_Call, Rule]] = []

    def run(self) -> list[tuple[Node, Refusal]]:
        """Rewrites the illegal calls; bodies of control flow are separate programs.

        Returns:
            The calls that remain illegal, each with the reason, which may be that of a call that a rule
            emitted.
        """
        left = []
        graph = self._builder.program.graph
        nodes = list(graph.nodes)
        with bundled(graph) as release:
            for node in nodes:
                release(node)
                if node.op == "call_function" and not is_erased(node):
                    refusal = self.legalize(node)
                    if refusal is not None:
                        left.append((node, refusal))
        return left

    def legalize(self, node: Node) -> Refusal | None:
        """Replaces one call by legal ones; if impossible, returns the reason and changes nothing."""
        if node.target is operator.getitem:
            return None
        refusal = self._target.refusal(node, self._builder.facts)
        for rule in () if refusal is None else self._target.rules(node):
            assert refusal is not None
            if self._is_applying(rule, node):
                continue
            before = node.prev
            results = self._apply(rule, node, refusal)
            if isinstance(results, Refusal):
                refusal = results
            elif results is not None:
                self._path.append(((node.target, node.args, node.kwargs), rule))
                apply = self._legalize_fully if self._target.full else self._legalize_partially
                failure = apply(before, node, results)
                self._path.pop()
                if failure is None:
                    return None
                refusal = failure
            _erase_between(before, node)
        return refusal

    def _apply(self, rule: Rule, node: Node, refusal: Refusal) -> Any:
        """Applies a rule. A rule for backends may need static sizes; the call is then illegal as before."""
        self._builder.rule = rule_name(rule)
        if not self._target.full or not _has_dynamic_sizes(node):
            return rule(self._builder.at(node), node)
        try:
            with no_new_guards(self._builder):
                return rule(self._builder.at(node), node)
        except (*NEEDS_VALUE, RuntimeError, TypeError):
            # functions in C++ reject symbolic sizes in many ways
            if refusal.rule != "operator":
                return refusal
            message = f"a rewrite of {node.target} needs static sizes"
            return Refusal("dynamic-shape", message, "make the size a constant of the model")

    def _is_applying(self, rule: Rule, node: Node) -> bool:
        """Whether a rule is being applied to a call of the same signature."""
        call: Any = (node.target, node.args, node.kwargs)
        outer = [each for each, other in self._path if other == rule and each[0] is node.target]
        return bool(outer) and call_signature(*call) in [call_signature(*each) for each in outer]

    def _legalize_partially(self, before: Node, node: Node, results: Any) -> None:
        """Replaces a call, then legalizes its replacement as far as possible."""
        made = _between(before, node)
        replace(node, results)
        for each in made:
            if not is_erased(each):
                self.legalize(each)

    def _legalize_fully(self, before: Node, node: Node, results: Any) -> Refusal | None:
        """Replaces a call if all calls of its replacement can be made legal."""
        # A user of the results, which records their replacements.
        holder = node.graph.create_node("call_function", _hold_results, (results,))
        node.prepend(holder)
        for each in _between(before, holder):
            failure = None if is_erased(each) or is_scalar(each) else self.legalize(each)
            if failure is not None:
                failure = failure if failure.rewritten else replaced(failure, rewritten=str(each.target))
                holder.graph.erase_node(holder)
                return failure
        final: Any = holder.args[0]
        holder.graph.erase_node(holder)
        replace(node, final)
        return None


def legalize(program: EdgeProgram, target: Target) -> list[tuple[Node, Refusal]]:
    """Legalizes the calls of a program, and removes dead code; see `Legalizer.run`."""
    left = Legalizer(Builder(program), target).run()
    program.graph.eliminate_dead_code()
    program.erase_unused_placeholders()
    return left


def replace(node: Node, results: Node | int | float | Sequence[Node | None]) -> None:
    """Replaces `node` by `results`: one node or scalar, or one node per element of a tuple.

    Asserts that tensors have the dtype and the sizes of those that they replace.
    """
    if isinstance(results, Node):
        _check(node, results)
        node.replace_all_uses_with(results)
    elif isinstance(results, (int, float)):
        # torch.export has specialized a symbolic scalar after it was used
        for user in list(node.users):
            user.args, user.kwargs = map_arg(
                (user.args, user.kwargs), lambda each: results if each is node else each
            )
    else:
        for user in list(node.users):
            assert user.target is operator.getitem, f"{user} uses the tuple of {node} as a whole"
            result = results[user.args[1]]  # type: ignore[index]
            if result is not None:
                _check(user, result)
                user.replace_all_uses_with(result)
            user.graph.erase_node(user)
    node.graph.erase_node(node)


def _check(node: Node, result: Any) -> None:
    """Asserts that a result has the dtype and static sizes of the node that it replaces.

    A result may be a list of nodes, for an element that is a list.
    """
    wanted, found = node.meta.get("val"), result.meta.get("val") if isinstance(result, Node) else None
    if isinstance(wanted, torch.Tensor) and isinstance(found, torch.Tensor):
        assert found.dtype == wanted.dtype, f"{node.target} is rewritten to {found.dtype}, not {wanted.dtype}"
        assert len(found.shape) == len(wanted.shape) and all(
            one == other
            for one, other in zip(found.shape, wanted.shape, strict=True)
            if type(one) is int and type(other) is int
        ), f"{node.target} is rewritten to {tuple(found.shape)}, not {tuple(wanted.shape)}"


def _has_dynamic_sizes(node: Node) -> bool:
    """Whether a tensor or scalar of a call varies between runs."""
    values = [each.meta.get("val") for each in (*node.all_input_nodes, node)]
    return any(map(is_scalar, node.all_input_nodes)) or any(
        is_dynamic(tensor.shape) for value in values for tensor in tensors(value)
    )


def _hold_results(results: Any) -> Any:
    return results


def _between(before: Node, after: Node) -> list[Node]:
    made, node = [], before.next
    while node is not after:
        if node.op == "call_function":  # constants are added at the start of the graph
            made.append(node)
        node = node.next
    return made


def _erase_between(before: Node, after: Node) -> None:
    """Erases new nodes, except for sizes of earlier values, which the builder shares."""
    made = dict.fromkeys(_between(before, after), True)
    for node in made:
        made[node] = not is_scalar(node) or any(made.get(source, False) for source in node.all_input_nodes)
    for node in reversed(made):
        if made[node]:
            node.graph.erase_node(node)


def is_erased(node: Node) -> bool:
    """Whether a node is no longer in its graph."""
    return bool(node._erased)
