# SPDX-License-Identifier: Apache-2.0
"""`to_backend`: lowers a program to one delegate, or partitions of one or several programs to delegates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, overload

from torch._ops import OpOverload

from delegatec.delegation.delegates.lowered_program import LoweredProgram
from delegatec.delegation.delegates.operators import operator_nodes
from delegatec.delegation.lowering.partitions import lower_partitions
from delegatec.delegation.lowering.report import DelegationReport, summarize_rejection
from delegatec.delegation.lowering.single_delegate import lower_to_single_delegate
from delegatec.delegation.lowering.splice import free_names
from delegatec.delegation.partitioning.checks import query
from delegatec.delegation.partitioning.composites import decompose_for
from delegatec.delegation.plugins import call
from delegatec.delegation.protocol.backend import Backend
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.partitioner import Partitioner, Rejection
from delegatec.delegation.registry import BackendRegistry
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import check_types, wrong_argument
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.edge.analysis.multiplications import multiplications_of
from delegatec.edge.passes.pass_manager import end_stage, run_passes
from delegatec.edge.passes.quantized_borders import quantize_borders
from delegatec.edge.program import EdgeProgram

_NAME: Final = "to_backend"
_AN_EDGE_PROGRAM: Final = "an edge program"
_NONE: Final[frozenset[OpOverload]] = frozenset()
_MAKE_ONE: Final = "convert the exported program: delegatec.to_edge(exported)"

Partitioners = Partitioner | Sequence[Partitioner]
"""One partitioner, or several in order of priority: each receives the nodes that those before it rejected."""


class Delegated(NamedTuple):
    """A program after `to_backend`.

    Attributes:
        program: the given one, with delegates.
        report: the delegates, and each backend's reason for each rejected node.
    """

    program: EdgeProgram
    report: DelegationReport


@overload
def to_backend(
    backend_id: str,
    program: EdgeProgram,
    compile_specs: Sequence[CompileSpec] = ...,
    /,
    *,
    registry: BackendRegistry,
) -> LoweredProgram: ...


@overload
def to_backend(
    program: EdgeProgram, partitioners: Partitioners, /, *, registry: BackendRegistry
) -> Delegated: ...


@overload
def to_backend(
    programs: Mapping[str, EdgeProgram],
    partitioners: Partitioners | Mapping[str, Partitioners],
    /,
    *,
    registry: BackendRegistry,
) -> dict[str, Delegated]: ...


def to_backend(
    first: str | EdgeProgram | Mapping[str, EdgeProgram],
    second: EdgeProgram | Partitioners | Mapping[str, Partitioners],
    compile_specs: Sequence[CompileSpec] = (),
    /,
    *,
    registry: BackendRegistry,
) -> LoweredProgram | Delegated | dict[str, Delegated]:
    """Lowers programs to delegates. There are three forms.

    `to_backend(backend_id, program, compile_specs)` compiles a complete program to one delegate: a module
    that can be called, printed, and embedded in a larger module that is exported. The program is not edited.

    `to_backend(program, partitioners)` lowers the groups of the partitioners in place: each group becomes one
    `call_delegate`, also in bodies of control flow. Constants that are used only by delegates are removed
    from the program and its signature.

    `to_backend(programs, partitioners)` does that for the methods of a model: with the same partitioners for
    all, or with a map from the name of a method; methods that are not in the map do not change.

    Args:
        first: id of a backend; or a program; or method name -> program.
        second: the program; or a partitioner, or several in order of priority; or method name -> these.
        compile_specs: settings of the backend, in the first form.
        registry: backends by id; `delegatec.to_backend` knows the built-in ones.

    Returns:
        The delegate; or the given program with its report; or that for each method.

    Raises:
        DelegatecError: all problems of all methods: DC401 for an unknown backend id; DC404 for a partitioner
            that edited the program or whose groups overlap or form a cycle; DC405 for each node of a
            complete program that the backend does not support; DC410, DC411 for a plug-in that raises or
            returns a wrong type; DC413 for an unknown method; DC415 for arguments of a wrong type; errors
            of `preprocess`.
    """
    check_types(_NAME, {"registry": (registry, BackendRegistry, "a BackendRegistry")})
    if isinstance(first, str):
        if not isinstance(second, EdgeProgram):
            raise wrong_argument(_NAME, "the second argument", second, _AN_EDGE_PROGRAM, _MAKE_ONE)
        if not isinstance(compile_specs, Sequence) or not all(
            isinstance(spec, CompileSpec) for spec in compile_specs
        ):
            raise wrong_argument(_NAME, "compile_specs", compile_specs, "a list of CompileSpec")
        return lower_to_single_delegate(first, second, compile_specs, registry)
    if isinstance(first, EdgeProgram):
        return _delegate(first, _checked(second), registry)
    if not isinstance(first, Mapping):
        expected = f"the id of a backend, {_AN_EDGE_PROGRAM}, or a dict of these by method"
        raise wrong_argument(_NAME, "the first argument", first, expected, _MAKE_ONE)
    for program in first.values():
        if not isinstance(program, EdgeProgram):
            raise wrong_argument(_NAME, "a method", program, _AN_EDGE_PROGRAM, _MAKE_ONE)
    if not isinstance(second, Mapping):
        return _delegate_methods(first, _checked(second), registry)
    return _delegate_methods(first, {name: _checked(value) for name, value in second.items()}, registry)


def _checked(partitioners: object) -> Partitioners:
    """Returns its argument if it consists of partitioners."""
    several = partitioners if isinstance(partitioners, (list, tuple)) else (partitioners,)
    for one in several:
        if not isinstance(one, Partitioner):
            help = "use backend.partitioner(compile_specs)"
            raise wrong_argument(_NAME, "a partitioner", one, "a delegatec.delegation.Partitioner", help)
    return several


def _delegate(program: EdgeProgram, partitioners: Partitioners, registry: BackendRegistry) -> Delegated:
    report = DelegationReport()
    rejections: list[tuple[str, Rejection]] = []
    names = free_names(program)
    several = partitioners if isinstance(partitioners, Sequence) else (partitioners,)
    preserved = _preserved(program, several, registry) if len(several) > 1 else []
    for index, partitioner in enumerate(several):
        if index:
            earlier, later = _NONE.union(*preserved[:index]), _NONE.union(*preserved[index + 1 :])
            decompose_for(program, partitioner, preserved[index], earlier=earlier, later=later)
        if operators := partitioner.control_flow:
            run_passes(program, [partial(quantize_borders, operators=operators)])
        run_passes(program, partitioner.preparation)
        problems: list[Diagnostic] = []
        for part in program.walk():
            try:
                delegates, reasons = lower_partitions(part, partitioner, registry, names)
            except DelegatecError as error:
                problems += error.diagnostics
            else:
                report.delegates += delegates
                rejections += reasons
        if problems:
            raise DelegatecError(problems)
    for part in program.walk():
        part.erase_unused_placeholders()
    end_stage("to_backend", program)
    left = {node for part in program.walk() for node in operator_nodes(part)}
    report.nodes_left = len(left)
    report.multiplications_left = sum(map(multiplications_of, left))
    report.rejections = [summarize_rejection(id, reason) for id, reason in rejections if reason.node in left]
    return Delegated(program, report)


def _preserved(
    program: EdgeProgram, partitioners: Sequence[Partitioner], registry: BackendRegistry
) -> list[frozenset[OpOverload]]:
    """Returns each backend's preserved operators. Partitioners name their backend only when they run."""
    ids = [query(partitioner, program).delegation.backend_id for partitioner in partitioners]
    return [call(Backend.preserved_operators, registry.by_id(id)) for id in ids]


def _delegate_methods(
    programs: Mapping[str, EdgeProgram],
    partitioners: Partitioners | Mapping[str, Partitioners],
    registry: BackendRegistry,
) -> dict[str, Delegated]:
    chosen = partitioners if isinstance(partitioners, Mapping) else dict.fromkeys(programs, partitioners)
    problems = unknown_methods(chosen, programs)
    results: dict[str, Delegated] = {}
    for name, program in programs.items():
        try:
            results[name] = _delegate(program, chosen.get(name, ()), registry)
        except DelegatecError as error:
            problems += error.diagnostics
    if problems:
        raise DelegatecError(problems)
    return results


def unknown_methods(named: Mapping[str, object], methods: Mapping[str, object]) -> list[Diagnostic]:
    """Returns DC413 for each name that is not a method of a model.

    Args:
        named: the given values, by method.
        methods: the methods of the model, by name.
    """
    return [
        Diagnostic(
            "DC413",
            f"the model has no method {name!r}",
            expected=", ".join(methods),
            help=did_you_mean(name, methods),
        )
        for name in named
        if name not in methods
    ]
