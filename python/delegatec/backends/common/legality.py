# SPDX-License-Identifier: Apache-2.0
"""The calls that a backend's table and rewrites can lower."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from delegatec.backends.common.table import OperatorTable
from delegatec.delegation.delegates.extract import extract_view
from delegatec.delegation.protocol.partitioner import Rejection
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import FORMS
from delegatec.edge.float32_regions import FLOAT32
from delegatec.edge.legalize.engine import Legalizer, is_erased
from delegatec.edge.legalize.guards import NEEDS_VALUE
from delegatec.edge.legalize.rule import Refusal, Rewrites, Rule, preserved
from delegatec.edge.legalize.templates import is_traced
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.remove_identities import UNCONDITIONAL
from delegatec.edge.program import EdgeProgram
from delegatec.edge.signature import call_signature
from delegatec.edge.symbols import is_scalar, size_nodes

SettingsT = TypeVar("SettingsT")
_SIZE: Final = "size"
# The maximum number of elements that a 32-bit index can address.
_LARGEST: Final = 2**31 - 1
_SIZE_OF: Final = torch.ops.aten.sym_size.int

Prepare = Callable[[EdgeProgram], Any]
"""A pass that runs on a private program before it is legalized, such as `to_float16`."""


_DEPENDS_ON_DATA: Final = Refusal(
    "dynamic-shape",
    "a size depends on data, and the delegate needs to know it",
    "select a fixed number of elements, such as by topk or nonzero_static",
)


def is_removed(target: object) -> bool:
    """Whether no program in normal form calls an ATen operator, unless a backend preserves it."""
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    return is_traced(target) or target in UNCONDITIONAL


class TableTarget(Generic[SettingsT]):
    """A backend as a target of legalization: a call is legal if it has a row and satisfies its constraints.

    Args:
        table: the rows.
        rewrites: rules for illegal calls.
        settings: the user's settings, for the constraints.

    Raises:
        ValueError: the normal form removes the operator of a row, which is neither preserved nor private.
    """

    full: Final = True

    def __init__(self, table: OperatorTable[Any, SettingsT], rewrites: Rewrites, settings: SettingsT) -> None:
        reachable = table.preserved() | preserved(rewrites) | table.private
        if removed := [str(each) for each in table.rows if is_removed(each) and each not in reachable]:
            raise ValueError(f"the normal form removes the operators of rows: {', '.join(removed)}")
        self.table = table
        self.rewrites = rewrites
        self.settings = settings
        # dtypes and shapes of operands and results that no constraint of all rows excludes
        self._allowed: set[Hashable] = set()
        self._computes: dict[Any, bool] = {
            **{target: any(each.computes for each in several) for target, several in rewrites.items()},
            **{target: row.computes for target, row in table.rows.items()},
        }

    @property
    def control_flow(self) -> Collection[Any]:
        """The operators of control flow that delegates run with their bodies: those that have a row."""
        return FORMS.keys() & self.table.rows.keys()

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`."""
        if node.target in self.table.rows:
            excluded = self.exclusion(node)
            if excluded is not None:
                return excluded
        return self.table.refusal(node, self.settings, facts)

    def exclusion(self, node: Node) -> Refusal | None:
        """Returns why no rewrite can legalize a call: its operands or results are unsupported."""
        values: list[Any] = [each.meta.get("val") for each in (*node.all_input_nodes, node)]
        if not all(type(each) is FakeTensor and not each._has_symbolic_sizes_strides for each in values):
            return self.table.exclusion(node, self.settings)
        key = tuple([(each.dtype, each.shape) for each in values])
        if key in self._allowed:
            return None
        excluded = self.table.exclusion(node, self.settings)
        if excluded is None:
            self._allowed.add(key)
        return excluded

    def rules(self, node: Node) -> Sequence[Rule]:
        """See `Target.rules`."""
        target: Any = node.target
        return self.rewrites.get(target, ())

    def computes(self, nodes: Iterable[Node]) -> bool:
        """Whether any of the nodes computes something instead of only moving data."""
        return any(self._computes.get(node.target, False) for node in nodes)

    def needs_rewrites(self, nodes: Iterable[Node], facts: Facts) -> bool:
        """Whether one of the nodes, which `Legality` accepted, must be rewritten."""
        return any(node.target in self.rewrites and self.refusal(node, facts) is not None for node in nodes)

    def legalize(self, program: EdgeProgram, facts: Facts) -> bool:
        """Legalizes a private program whose calls `Legality` accepted.

        Args:
            program: edited in place.
            facts: analysis results for its values.

        Returns:
            Whether a call was rewritten.
        """
        candidates = [node for node in program.graph.nodes if node.target in self.rewrites]
        legalizer = Legalizer(Builder(program, facts), self)
        for node in candidates:
            refusal = legalizer.legalize(node)
            assert refusal is None, f"{node.name} was accepted: {refusal}"
        if not any(is_erased(node) for node in candidates):
            return False
        eliminate_common(program)
        program.graph.eliminate_dead_code()
        program.erase_unused_placeholders()
        return True


def _too_large(node: Node) -> Refusal | None:
    """Returns a refusal of a tensor with more elements than a 32-bit index can address."""
    for each in (*node.all_input_nodes, node):
        value = each.meta.get("val")
        if type(value) is FakeTensor and not value._has_symbolic_sizes_strides and value.numel() > _LARGEST:
            return Refusal(_SIZE, f"a tensor of {value.numel()} elements, more than {_LARGEST}")
    return None


def _sized_by_empty(node: Node) -> Refusal | None:
    """Returns a refusal of a size that a delegate would read from an input without elements."""
    for each in size_nodes([node]) if any(map(is_scalar, node.all_input_nodes)) else ():
        source: Any = each.args[0]
        shape = source.meta["val"].shape if each.target is _SIZE_OF else ()
        if any(isinstance(size, int) and size == 0 for size in shape):
            return Refusal("empty", f"a size of an empty tensor of shape {[*map(str, shape)]}")
    return None


def _in_rewrite(node: Node, refusal: Refusal) -> str:
    """Returns a reason that names the operator, and the one of its rewrite that is not supported."""
    operator_, needed = str(node.target), refusal.rewritten
    # The rest of the reason describes operands that the rewrite creates.
    violation = "" if refusal.rule == "operator" else f" ({refusal.message.partition('. ')[0]})"
    if needed == operator_:
        return f"the delegate does not support {operator_} with these arguments{violation}"
    return f"the delegate does not support {operator_}, nor {needed}{violation}, which would compute it"


def _help(refusal: Refusal) -> str:
    return "" if refusal.rule in ("operator", "dtype") else refusal.help


class Legality(Generic[SettingsT]):
    """Determines whether calls of a program can be lowered, memoized by signature, without edits.

    Args:
        target: the backend.
        prepare: passes over a private program that run before legalization.
    """

    def __init__(self, target: TableTarget[SettingsT], prepare: Sequence[Prepare]) -> None:
        self._target = target
        self._prepare = prepare
        # Facts that hold only in the partition are not needed after a rewrite.
        self._facts = Facts({})
        self._answers: dict[Hashable, Refusal | None] = {}

    def rejection(self, program: EdgeProgram, node: Node) -> Rejection | None:
        """Returns why a call can neither be lowered nor rewritten to calls that can; None if it can."""
        try:
            own = refusal = _too_large(node) or _sized_by_empty(node)
            if refusal is None:
                own = refusal = self._target.refusal(node, self._facts)
                if refusal is not None and self._target.rules(node):
                    refusal = self._target.exclusion(node) or self._tried(program, node)
        except NEEDS_VALUE:
            own = refusal = _DEPENDS_ON_DATA
        if refusal is None or own is None:
            return None
        if not refusal.rewritten:
            return Rejection(node, refusal.rule, refusal.message, refusal.help)
        if own.rule == _SIZE or (own.rule != "operator" and refusal.rule != _SIZE):
            # The constraint that the user's call violates, instead of one that a call unknown to the user
            # violates.
            return Rejection(node, own.rule, own.message, own.help)
        return Rejection(node, refusal.rule, _in_rewrite(node, refusal), _help(refusal))

    def constant_operands(self, program: EdgeProgram, node: Node) -> Sequence[Node]:
        """Returns operands that are calls on constants, and that rules read as constants; none here."""
        return ()

    def _tried(self, program: EdgeProgram, node: Node) -> Refusal | None:
        results = tuple(user for user in node.users if user.target is operator.getitem)
        calls = self.constant_operands(program, node)
        key = (
            call_signature(node.target, node.args, node.kwargs),  # type: ignore[arg-type]
            tuple(source.name in program.constants or source in calls for source in node.all_input_nodes),
            tuple(sorted(user.args[1] for user in results)),  # type: ignore[type-var]
            node.meta.get(FLOAT32),
        )
        if key not in self._answers:
            self._answers[key] = self._try(program, [*calls, node, *results], node)
        return self._answers[key]

    def _try(self, program: EdgeProgram, calls: Sequence[Node], node: Node) -> Refusal | None:
        alone = extract_view(PartitionView(program, calls, computes_sizes=True), {})
        (call,) = (each for each in alone.graph.nodes if each.target is node.target)
        for prepare in self._prepare:
            prepare(alone)
        if is_erased(call):
            (call,) = (each for each in alone.graph.nodes if each.target is node.target)
        return Legalizer(Builder(alone, Facts(alone.constants)), self._target).legalize(call)
