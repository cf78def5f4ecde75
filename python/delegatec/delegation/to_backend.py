# SPDX-License-Identifier: Apache-2.0
"""`to_backend`: parts of a program become delegates; `lower_program`: a whole program becomes one."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from torch.fx import Node

from delegatec.delegation.backend import Backend
from delegatec.delegation.compile_spec import CompileSpec
from delegatec.delegation.lowered_module import LoweredModule, call_delegate
from delegatec.delegation.mapping import check_mapping
from delegatec.delegation.partitioner import Partitioner, Partitioning, Rejection
from delegatec.delegation.registry import BackendRegistry
from delegatec.delegation.report import (
    DelegateSummary,
    DelegationReport,
    RejectionSummary,
    operator_counts,
    operator_name,
)
from delegatec.delegation.splice import free_names, reorder, schedule, splice
from delegatec.delegation.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.program import EdgeProgram


def to_backend(
    program: EdgeProgram, partitioners: Partitioner | Sequence[Partitioner], registry: BackendRegistry
) -> DelegationReport:
    """Lowers what partitioners take of a program, in place: each group becomes one `call_delegate`.

    Args:
        program: the program. Constants that only delegates read leave it.
        partitioners: one, or several in order of priority: each sees what those before it left.
        registry: where backends are found by the id that a partitioner names.

    Returns:
        The delegates, and for each node that stayed the reason of each backend.

    Raises:
        DelegatecError: DC401 for an unknown backend id; DC404 for a partitioner that edited the program
            or whose groups overlap or wait for themselves; what a backend's `preprocess` raises, the
            problems of all groups at once.
    """
    report = DelegationReport(nodes_before=len(_operators(program)))
    rejections: list[tuple[str, Rejection]] = []
    for partitioner in partitioners if isinstance(partitioners, Sequence) else (partitioners,):
        partitioning = _partition(partitioner, program)
        backend = registry.by_id(partitioning.delegation.backend_id)
        report.delegates += _lower_groups(program, partitioning, backend)
        rejections += ((backend.id, rejection) for rejection in partitioning.rejections)
    program.erase_unused_placeholders()
    left = set(_operators(program))
    report.nodes_left = len(left)
    report.rejections = [_summary(backend_id, r) for backend_id, r in rejections if r.node in left]
    return report


def lower_program(
    backend_id: str, program: EdgeProgram, compile_specs: Sequence[CompileSpec], registry: BackendRegistry
) -> LoweredModule:
    """Lowers a whole program to one delegate. The program is read, not edited.

    Args:
        backend_id: the id that the runtime knows the backend by.
        program: the program; all of its nodes must be ones that the backend takes.
        compile_specs: settings of the backend.
        registry: where the backend is found.

    Raises:
        DelegatecError: DC401 for an unknown id; DC405 for each node that the backend does not take, with the
            reason; what the backend's `preprocess` raises.
    """
    backend = registry.by_id(backend_id)
    rejections = backend.partitioner(compile_specs).partition(program).rejections
    if rejections:
        raise DelegatecError([_diagnostic(backend_id, rejection) for rejection in rejections])
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return _lower(PartitionView(program, nodes), backend, compile_specs)


def _partition(partitioner: Partitioner, program: EdgeProgram) -> Partitioning:
    before = [(node, node.target, node.args, node.kwargs) for node in program.graph.nodes]
    partitioning = partitioner.partition(program)
    after = [(node, node.target, node.args, node.kwargs) for node in program.graph.nodes]
    if len(before) != len(after) or any(
        old is not new for pair in zip(before, after, strict=True) for old, new in zip(*pair, strict=True)
    ):
        raise _bad_partitioner(partitioner, "it edited the program", "tag nodes, and leave edits to passes")
    grouped = [node for group in partitioning.groups for node in group]
    if len(set(grouped)) != len(grouped) or any(
        node.op != "call_function" or node.graph is not program.graph for node in grouped
    ):
        raise _bad_partitioner(
            partitioner,
            "a node is in two groups, or is not an operator of the program",
            "groups are disjoint sets of call_function nodes",
        )
    return partitioning


def _lower_groups(
    program: EdgeProgram, partitioning: Partitioning, backend: Backend
) -> list[DelegateSummary]:
    groups = [group for group in partitioning.groups if group]
    if not groups:
        return []
    order = schedule(program.graph, groups)
    if order is None:
        raise _bad_partitioner(
            backend.partitioner(partitioning.delegation.compile_specs),
            "a group waits for itself through a node outside of it",
            "delegatec.delegation.grouping.convex_groups makes groups that do not",
        )
    lowered: list[tuple[PartitionView, LoweredModule]] = []
    problems: list[Diagnostic] = []
    for group in groups:
        view = PartitionView(program, group)
        try:
            lowered.append((view, _lower(view, backend, partitioning.delegation.compile_specs)))
        except DelegatecError as error:
            problems += error.diagnostics
    if problems:
        raise DelegatecError(problems)
    reorder(order)
    summaries = []
    names_in_model = program.names_in_model()
    for (old, module), name in zip(lowered, free_names(program), strict=False):
        view = PartitionView(program, old.nodes)  # Its inputs may be outputs of a delegate by now.
        operators = operator_counts([node for node in view.nodes if node.target is not operator.getitem])
        summary = DelegateSummary(
            module=module,
            operators=operators,
            input_names=tuple(node.name for node in view.inputs),
            output_names=tuple(node.name for node in view.outputs),
            constants={names_in_model.get(node.name, node.name): t for node, t in view.constants.items()},
        )
        splice(program, view, module, name)
        summaries.append(summary)
    return summaries


def _lower(view: PartitionView, backend: Backend, compile_specs: Sequence[CompileSpec]) -> LoweredModule:
    result = backend.preprocess(view, compile_specs)
    check_mapping(result.debug_handle_map, view, backend.id)
    return LoweredModule(
        backend_id=backend.id,
        blob=result.blob,
        compile_specs=compile_specs,
        original=[str(node.format_node()) for node in view.nodes],
        debug_handle_map=result.debug_handle_map,
        debug_handles=sorted(
            {node.meta["debug_handle"] for node in view.nodes if "debug_handle" in node.meta}
        ),
        reference=backend.reference,
    )


def _operators(program: EdgeProgram) -> list[Node]:
    return [
        node
        for node in program.graph.nodes
        if node.op == "call_function" and node.target not in (operator.getitem, call_delegate)
    ]


def _summary(backend_id: str, rejection: Rejection) -> RejectionSummary:
    return RejectionSummary(
        backend_id=backend_id,
        node=rejection.node.name,
        operator=operator_name(rejection.node),
        rule=rejection.rule,
        message=rejection.message,
        help=rejection.help,
        location=rejection.node.meta.get("source"),
    )


def _diagnostic(backend_id: str, rejection: Rejection) -> Diagnostic:
    return Diagnostic(
        code="DC405",
        message=f"{backend_id} cannot run {operator_name(rejection.node)}: {rejection.message}",
        location=rejection.node.meta.get("source"),
        node=rejection.node.name,
        help=rejection.help,
    )


def _bad_partitioner(partitioner: Partitioner, message: str, help: str) -> DelegatecError:
    name = type(partitioner).__qualname__
    return DelegatecError([Diagnostic(code="DC404", message=f"partitioner {name}: {message}", help=help)])
