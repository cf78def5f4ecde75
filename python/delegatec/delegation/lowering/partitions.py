# SPDX-License-Identifier: Apache-2.0
"""Lowers the partitions of one graph: compiles them, then replaces them by delegates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch.export.graph_signature import InputSpec
from torch.fx import Node

from delegatec.delegation import plugins
from delegatec.delegation.delegates.extract import extract_view
from delegatec.delegation.delegates.lowered_module import LoweredModule
from delegatec.delegation.delegates.operators import operator_counts
from delegatec.delegation.delegates.original import Original
from delegatec.delegation.faults import attribute_errors, wrong_result
from delegatec.delegation.lowering.boundary import convert_boundary
from delegatec.delegation.lowering.dim_orders import order_boundary
from delegatec.delegation.lowering.refused import is_refused, refused
from delegatec.delegation.lowering.report import DelegateSummary
from delegatec.delegation.lowering.splice import rename_outputs, reorder, schedule, splice
from delegatec.delegation.lowering.state import kept_state
from delegatec.delegation.partitioning.checks import bad_partitioner, query
from delegatec.delegation.partitioning.snapshot import Snapshot
from delegatec.delegation.protocol.backend import Backend, PreprocessResult
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.partitioner import Partitioner, Rejection
from delegatec.delegation.protocol.view import PartitionView
from delegatec.delegation.registry import BackendRegistry
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.multiplications import multiplications_of
from delegatec.edge.passes.pass_manager import observed_passes, run_pass, verify_after
from delegatec.edge.program import EdgeProgram
from delegatec.edge.state import release
from delegatec.edge.symbols import is_scalar


def lower_partitions(
    program: EdgeProgram, partitioner: Partitioner, registry: BackendRegistry, names: Iterator[str]
) -> tuple[list[DelegateSummary], list[tuple[str, Rejection]]]:
    """Lowers the partitions of one graph in place, without the bodies of its control flow.

    Args:
        program: edited in place, unless an error occurs.
        partitioner: the partitioner.
        registry: the known backends.
        names: names for new delegates.

    Returns:
        The delegates, and for each rejected node the id of the backend and its reason.

    Raises:
        DelegatecError: see `to_backend`.
    """
    partitioning = query(partitioner, program)
    backend = registry.by_id(partitioning.delegation.backend_id)
    rejections = [(backend.id, rejection) for rejection in partitioning.rejections]
    groups = [group for group in partitioning.groups if group]
    if not groups:
        return [], rejections

    def boundary_dtype(dtype: torch.dtype) -> torch.dtype:
        return plugins.call(Backend.boundary_dtype, backend, dtype)

    groups = convert_boundary(program, groups, boundary_dtype)
    groups = order_boundary(program, groups, backend, partitioner)
    order = schedule(program.graph, groups)
    if order is None:
        raise bad_partitioner(
            partitioner,
            "a group depends on itself through a node outside of it",
            "use delegatec.delegation.convex_groups, whose groups are acyclic",
        )
    mutated, input_specs = program.mutated_inputs(), program.specs_by_name()
    specs = partitioning.delegation.compile_specs
    view_of = partial(PartitionView, program, mutated=mutated, computes_sizes=partitioning.computes_sizes)
    states = [kept_state(program, group, backend) for group in groups]
    modules = _compile(program, list(zip(groups, states, strict=True)), backend, specs, view_of, input_specs)
    reorder(order)
    summaries = []
    renamed: dict[str, str] = {}
    for group, state, module in zip(groups, states, modules, strict=True):
        # A new view: inputs may have become outputs of a delegate.
        view = view_of(group, state=state)
        release(program, [node.name for node in state])
        summaries.append(_summarize(view, module, input_specs))
        renamed.update(splice(program, view, module, next(names)))
    rename_outputs(program, renamed)
    return summaries, rejections


def lower_view(
    view: PartitionView,
    backend: Backend,
    compile_specs: Sequence[CompileSpec],
    input_specs: Mapping[str, InputSpec],
) -> LoweredModule:
    """Compiles one partition.

    Args:
        view: the partition.
        backend: its backend.
        compile_specs: settings.
        input_specs: name of a placeholder of the program -> its spec.

    Raises:
        DelegatecError: errors of `preprocess`; DC410, DC411 for a faulty plug-in; DC419 for a blob that the
            backend's own reader refuses.
    """
    before = _dynamic_sizes(view)
    private = _edited(view, backend, compile_specs, input_specs)
    try:
        result = plugins.preprocess(backend, private, compile_specs, view)
    except DelegatecError as error:
        if not is_refused(error):
            raise

        def compile(nodes: Sequence[Node]) -> PreprocessResult:
            part = PartitionView(view.program, nodes, facts=view.facts)
            edited = _edited(part, backend, compile_specs, input_specs)
            return plugins.preprocess(backend, edited, compile_specs, part)

        raise refused(error, backend.name, view.nodes, compile) from error
    if before - _dynamic_sizes(view):
        raise wrong_result(
            f"preprocess of backend {backend.id}",
            "a blob for one value of a dynamic size",
            "a blob for all sizes: int(size) is that of the example, and holds for no other",
        )
    names = {node.name: name for node, name, _ in _constants(view, input_specs)}
    if private is not view:  # The backend's passes may have rearranged weights.
        specs = private.program.specs_by_name()
        names.update({node.name: name for node, name, _ in _constants(private, specs)})
    return LoweredModule(
        backend=backend,
        blob=result.blob,
        compile_specs=compile_specs,
        original=Original(view, input_specs),
        debug_handle_map=result.debug_handle_map,
        debug_handles=sorted(
            {
                node.meta["debug_handle"]
                for node in (*view.nodes, *view.body_nodes())
                if "debug_handle" in node.meta
            }
        ),
        named_data=result.named_data,
        constant_names={id: names.get(name, name) for id, name in result.constant_names.items()},
        estimates=result.estimates,
        inline=result.inline,
        notes=result.notes,
    )


def _dynamic_sizes(view: PartitionView) -> set[tuple[int, int]]:
    """Returns the input's index and the dimension of each dynamic size of the inputs."""
    return {
        (position, dim)
        for position, node in enumerate(view.inputs)
        if isinstance(value := node.meta["val"], torch.Tensor)
        for dim, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt) and not size.node.expr.is_number
    }


def _edited(
    view: PartitionView,
    backend: Backend,
    compile_specs: Sequence[CompileSpec],
    input_specs: Mapping[str, InputSpec],
) -> PartitionView:
    """Runs the backend's passes on a private program, if it has any; returns a view of the result."""
    passes = plugins.call(Backend.passes, backend, view, compile_specs)
    if not passes:
        return view
    program = extract_view(view, input_specs)
    with attribute_errors(backend, f"a pass of backend {backend.id}"), observed_passes(verify_after):
        for each in passes:
            for part in list(program.walk()):
                run_pass(part, each)
                part.erase_unused_bodies()
    return PartitionView.of_program(program, view)


def _compile(
    program: EdgeProgram,
    groups: Sequence[tuple[Sequence[Node], Mapping[Node, Node]]],
    backend: Backend,
    compile_specs: Sequence[CompileSpec],
    view_of: Callable[..., PartitionView],
    input_specs: Mapping[str, InputSpec],
) -> list[LoweredModule]:
    """Returns one delegate per group, which is given with the state it keeps, or the problems of all."""
    modules: list[LoweredModule] = []
    problems: list[Diagnostic] = []
    facts = Facts(program.fixed_constants())
    before = Snapshot(program)
    for group, state in groups:
        try:
            view = view_of(group, facts=facts, state=state)
            modules.append(lower_view(view, backend, compile_specs, input_specs))
        except DelegatecError as error:
            problems += error.diagnostics
    if before.differs():
        # First: it may be the cause of later errors.
        problems.insert(0, _edited_by(backend))
    if problems:
        raise DelegatecError(problems)
    return modules


def _edited_by(backend: Backend) -> Diagnostic:
    return Diagnostic(
        "DC411",
        f"preprocess of backend {backend.id} edited the program",
        expected="a backend that only reads the partition in preprocess",
        help="edit it in passes, which Backend.passes returns",
    )


def _summarize(
    view: PartitionView, module: LoweredModule, input_specs: Mapping[str, InputSpec]
) -> DelegateSummary:
    nodes = [
        node
        for node in (*view.nodes, *view.body_nodes())
        if node.target is not operator.getitem and not is_scalar(node) and "crossing" not in node.meta
    ]
    return DelegateSummary(
        module=module,
        operators=operator_counts(nodes),
        multiplications=sum(map(multiplications_of, nodes)),
        input_names=tuple(node.meta.get("crossing", node.name) for node in view.inputs),
        output_names=tuple(node.meta.get("crossing", node.name) for node in view.outputs),
        constants={name: tensor for _, name, tensor in _constants(view, input_specs)},
    )


def _constants(
    view: PartitionView, input_specs: Mapping[str, InputSpec]
) -> Iterator[tuple[Node, str, torch.Tensor]]:
    """Yields the constants of a partition and of its bodies, with their names in the model."""
    for body in view.bodies.values():
        for part in body.walk():
            specs = part.specs_by_name()
            for node in part.placeholders():
                if node.name in part.constants:
                    yield node, _name(node, specs), part.constants[node.name]
    for node, tensor in view.constants.items():
        yield node, _name(node, input_specs), tensor


def _name(constant: Node, input_specs: Mapping[str, InputSpec]) -> str:
    spec = input_specs.get(constant.name)
    return constant.name if spec is None or spec.target is None else spec.target
