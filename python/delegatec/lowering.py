# SPDX-License-Identifier: Apache-2.0
"""The whole way from exported programs to an emitted program, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from torch.export import ExportedProgram

from delegatec.delegation import (
    BackendRegistry,
    DelegationReport,
    Partitioner,
    resolve_options,
    to_backend,
)
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge import KERNEL_COMPOSITES, EdgeProgram, print_program, to_edge
from delegatec.edge.constant_methods import check_constant_methods
from delegatec.program import EmittedProgram, ExternalWeights, ProgramOptions, emit, weights_of
from delegatec.program.kernel_check import check_kernels
from delegatec.program.scalar_type import SCALAR_TYPES
from delegatec.report.debug_map import Sources, sources_of
from delegatec.report.etrecord import GraphRecord, graph_record

PORTABLE: Final = "portable"

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Lowered:
    """A compiled model.

    Attributes:
        emitted: what `program.write_program` writes.
        programs: method name -> its edge program, delegates in place.
        reports: method name -> what was delegated, and why not the rest; empty for the portable kernels.
        sources: method name -> what its debug handles stand for.
        texts: method name -> the edge program as text, as it was before delegation; empty unless asked for.
        records: method name -> the edge program as an ETRecord has it, before delegation; likewise.
        backend: name of the backend, or "portable".
        options: value of every option of the backend.
    """

    emitted: EmittedProgram
    programs: dict[str, EdgeProgram]
    reports: dict[str, DelegationReport]
    sources: dict[str, Sources]
    texts: dict[str, str]
    records: dict[str, GraphRecord]
    backend: str
    options: dict[str, str]


def lower(
    methods: Mapping[str, ExportedProgram],
    backend: str = PORTABLE,
    options: Mapping[str, str] | None = None,
    *,
    require_full_delegation: bool = False,
    keep_text: bool = False,
    keep_record: bool = False,
    registry: BackendRegistry | None = None,
    external_weights: bool = False,
    program_options: ProgramOptions | None = None,
    constant_methods: Mapping[str, Any] | None = None,
) -> Lowered:
    """Compiles the methods of a model.

    Args:
        methods: method name -> exported program; they are taken over, and must not be used afterwards.
        backend: name of a backend, "module:attribute" of one's own, or "portable" for none.
        options: of the backend, by name.
        require_full_delegation: whether an operator that the backend leaves is an error.
        keep_text: whether to keep the edge program as text.
        keep_record: whether to keep it for an ETRecord, `report.etrecord.write_etrecord`.
        registry: where backends are found; those that come with the compiler by default.
        external_weights: whether the runtime's kernels find the model's weights in a `.ptd` beside the
            program, which `program.write_flat_tensors` writes of `program.weights_of(methods)`.
        program_options: how the program is laid out in its file.
        constant_methods: name -> value of further methods, without inputs, that return it: ints, floats,
            bools, strings, tensors, and tuples or lists of these.

    Raises:
        DelegatecError: DC122 for constant methods; then DC2xx to DC4xx, the problems of all methods at once.
    """
    problems = check_constant_methods(constant_methods or {}, methods, SCALAR_TYPES)
    if problems:
        raise DelegatecError(problems)
    options = dict(options or {})
    emitting = partial(
        emit,
        external=ExternalWeights(weights_of(methods) if external_weights else {}),
        options=program_options,
        constant_methods=constant_methods,
    )
    if backend == PORTABLE:
        settings = resolve_options(PORTABLE, {}, options)
        if require_full_delegation:
            raise DelegatecError(
                [
                    Diagnostic(
                        "DC405",
                        "the portable kernels are no delegate",
                        help="choose a backend, or drop the demand",
                    )
                ]
            )
        programs = _each(
            methods, lambda name, exported: to_edge(exported, method=name, preserve=KERNEL_COMPOSITES)
        )
        texts = _texts(programs) if keep_text else {}
        records = _records(programs, methods) if keep_record else {}
        sources = _sources(programs)
        return Lowered(emitting(programs), programs, {}, sources, texts, records, backend, settings)

    if registry is None:
        from delegatec.backends import builtin_backends  # The portable way needs none of them.

        registry = builtin_backends()
    found = registry
    chosen = found.resolve(backend)
    settings = resolve_options(chosen.name, chosen.options, options)
    specs = chosen.compile_specs(settings)
    preserved = chosen.preserved_operators()
    programs = _each(methods, lambda name, exported: to_edge(exported, method=name, preserve=preserved))
    sources, texts = _sources(programs), _texts(programs) if keep_text else {}
    records = _records(programs, methods) if keep_record else {}
    reports = _each(programs, lambda _, program: _delegate(program, chosen.partitioner(specs), found))
    if require_full_delegation:
        left = [problem for report in reports.values() for problem in _left(report)]
        if left:
            raise DelegatecError(left)
    return Lowered(emitting(programs), programs, reports, sources, texts, records, chosen.name, settings)


def _delegate(program: EdgeProgram, partitioner: Partitioner, registry: BackendRegistry) -> DelegationReport:
    """Delegates; a failure also names what would have had no kernel of what the backend leaves."""
    try:
        return to_backend(program, partitioner, registry=registry).report
    except DelegatecError as error:
        taken = {node.name for group in partitioner.partition(program).groups for node in group}
        kernels = [problem for problem in check_kernels(program) if problem.node not in taken]
        raise DelegatecError([*error.diagnostics, *kernels]) from error


def _each(items: Mapping[str, _Item], work: Callable[[str, _Item], _Result]) -> dict[str, _Result]:
    """Does the work for each item, and raises the problems of all."""
    results: dict[str, _Result] = {}
    problems: list[Diagnostic] = []
    for name, item in items.items():
        try:
            results[name] = work(name, item)
        except DelegatecError as error:
            problems += error.diagnostics
    if problems:
        raise DelegatecError(problems)
    return results


def _texts(programs: Mapping[str, EdgeProgram]) -> dict[str, str]:
    return {name: print_program(program) for name, program in programs.items()}


def _records(
    programs: Mapping[str, EdgeProgram], methods: Mapping[str, ExportedProgram]
) -> dict[str, GraphRecord]:
    return _each(programs, lambda name, program: graph_record(program, methods[name].example_inputs))


def _sources(programs: Mapping[str, EdgeProgram]) -> dict[str, Sources]:
    return {name: sources_of(program) for name, program in programs.items()}


def _left(report: DelegationReport) -> list[Diagnostic]:
    return [
        Diagnostic(
            code="DC405",
            message=f"{rejection.backend_id} left {rejection.operator}: {rejection.message}",
            location=rejection.location,
            node=rejection.node,
            help=rejection.help or "choose another operator, or let this one run on the CPU",
        )
        for rejection in report.rejections
    ]
