# SPDX-License-Identifier: Apache-2.0
"""Lowering of exported programs to an emitted program, for the command line and for Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch._ops import OpOverload
from torch.export import ExportedProgram

from delegatec.choice import PORTABLE as PORTABLE
from delegatec.choice import choose_backends
from delegatec.delegation import (
    Backend,
    BackendRegistry,
    DelegationReport,
    OptionValue,
    Partitioner,
    PartitionRules,
    to_backend,
)
from delegatec.delegation.partitioning.checks import query
from delegatec.delegation.partitioning.composites import decompose_for, decompose_rejected
from delegatec.delegation.partitioning.rule_check import RuleCheck
from delegatec.delegation.plugins import call
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.arguments import check_types, wrong_argument
from delegatec.diagnostics.notes import Note
from delegatec.edge import KERNEL_COMPOSITES, EdgeProgram, print_program, to_edge
from delegatec.edge.adoption.weights import weight_problems
from delegatec.edge.app_kernels import app_kernels
from delegatec.edge.constant_methods import check_constant_methods
from delegatec.edge.convert import conversion_problems
from delegatec.edge.state import written_state
from delegatec.edge.strides import force_channels_last
from delegatec.files import replacing
from delegatec.full_delegation import kernels_left, locations_of, rejected, unquantized
from delegatec.idle_settings import idle_problems
from delegatec.notes import notes_of, silencing_problems
from delegatec.program import EmittedProgram, ProgramOptions, emit, write_program
from delegatec.program.external import external_weights_of, name_weights
from delegatec.program.kernels.check import check_kernels
from delegatec.program.scalar_type import SCALAR_TYPES
from delegatec.report.debug_map import Sources, sources_of
from delegatec.report.etrecord import GraphRecord, graph_record
from delegatec.samples.guards import problems_of_others

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Program:
    """A compiled model.

    Attributes:
        emitted: the program for `program.write_program`.
        programs: method name -> its edge program, delegates in place.
        reports: method name -> its delegates, and the reasons for the rest; empty for the portable kernels.
        sources: method name -> the sources of its debug handles.
        texts: method name -> the edge program before delegation, as text; empty unless requested.
        records: method name -> the edge program before delegation, as in an ETRecord; empty unless requested.
        backend: names of the backends, separated by commas, or "portable".
        backends: method name -> names of its backends, in order of priority.
        options: value of every option; named "BACKEND.OPTION" if there are several backends.
        notes: method name -> what it could save, and what was changed for its device.
    """

    emitted: EmittedProgram
    programs: dict[str, EdgeProgram]
    reports: dict[str, DelegationReport]
    sources: dict[str, Sources]
    texts: dict[str, str]
    records: dict[str, GraphRecord]
    backend: str
    backends: dict[str, tuple[str, ...]]
    options: dict[str, OptionValue]
    notes: dict[str, tuple[Note, ...]]

    def save(self, path: str | Path) -> None:
        """Writes the program, for ExecuTorch's runtime; creates the file only on success.

        Args:
            path: the `.pte` to write. The same program gives the same bytes.

        Raises:
            DelegatecError: DC415 if it is not a path.
            OSError: the file cannot be written.
        """
        check_types("delegatec.Program.save", {"path": (path, str | Path, "a path")})
        with replacing(path) as file:
            write_program(self.emitted, file)


def lower(
    methods: Mapping[str, ExportedProgram],
    backend: str | Sequence[str] = PORTABLE,
    options: Mapping[str, str | Sequence[str]] | None = None,
    *,
    method_backends: Mapping[str, str | Sequence[str]] | None = None,
    rules: PartitionRules | None = None,
    require_full_delegation: bool = False,
    keep_text: bool = False,
    keep_record: bool = False,
    registry: BackendRegistry | None = None,
    external_weights: bool | Collection[str] = False,
    program_options: ProgramOptions | None = None,
    constant_methods: Mapping[str, Any] | None = None,
    kernels: Sequence[str] = (),
    is_part: bool = False,
    silenced_notes: Collection[str] = (),
) -> Program:
    """Compiles the methods of a model.

    Args:
        methods: method name -> exported program; they are edited, and must not be used afterwards.
        backend: name of a backend, "module:attribute" of a plug-in, or "portable" for none; or several, in
            order of priority: each partitions the operators that those before it did not delegate.
        options: option name -> a string or a list of strings; "BACKEND.NAME" if there are several backends.
        method_backends: method name -> backends that replace `backend` for this method.
        rules: which of the supported operators may be delegated.
        require_full_delegation: whether an operator that no backend supports is an error, and a copy to an
            output or to state that needs a library of kernels.
        keep_text: whether to keep the edge program as text.
        keep_record: whether to keep it for an ETRecord, `report.etrecord.write_etrecord`.
        registry: the known backends; the built-in ones by default.
        external_weights: whether the runtime's kernels load the model's weights from a `.ptd`, which
            `program.write_flat_tensors` writes from `program.weights_of(methods)`. Or the names of some of
            them, as `Model.external_weights` has them, whose values differ between `.ptd` files: delegates
            take them as inputs.
        program_options: the layout of the program file.
        constant_methods: name -> result of a further method without inputs: ints, floats, bools, strings,
            tensors, and tuples or lists of these.
        kernels: kernels of custom operators that the app registers in the runtime, such as "dsp::window.out":
            the out variants of operators that are registered in this process (`torch.library`).
        is_part: whether `methods` are parts of a model: `rules` may have names of its other parts.
        silenced_notes: kinds of notes to leave out, keys of `diagnostics.notes.NOTES`.

    Raises:
        DelegatecError: DC415 for arguments of wrong types; DC122 for constant methods; DC425 for
            `silenced_notes`; DC113 for guards of torch's that sizes in the ranges of a program break; DC211
            for `kernels`; then DC2xx to DC4xx, the problems of all methods at once.
            DC424 if a backend without floating-point arithmetic does not delegate any part of a model that
            is not quantized.
    """
    _check_methods(methods, constant_methods)
    check_types(
        "delegatec.lower",
        {
            "options": (options, Mapping | None, "a dict of options by name"),
            "method_backends": (method_backends, Mapping | None, "a dict of backends by method"),
            "rules": (rules, PartitionRules | None, "PartitionRules"),
            "require_full_delegation": (require_full_delegation, bool, "True or False"),
            "keep_text": (keep_text, bool, "True or False"),
            "keep_record": (keep_record, bool, "True or False"),
            "registry": (registry, BackendRegistry | None, "a BackendRegistry"),
            "external_weights": (
                external_weights,
                bool | list | tuple | set | frozenset,
                "True, False, or a list of names",
            ),
            "program_options": (program_options, ProgramOptions | None, "ProgramOptions"),
            "constant_methods": (constant_methods, Mapping | None, "a dict of values by method"),
            "kernels": (kernels, list | tuple, "a list of names of kernels"),
            "is_part": (is_part, bool, "True or False"),
            "silenced_notes": (silenced_notes, list | tuple | set | frozenset, "a list of kinds of notes"),
            **{f"option {name!r}": (name, str, "the name of an option") for name in _keys(options)},
            **{f"external weight {name!r}": (name, str, "a name") for name in _items(external_weights)},
            **{f"kernel {name!r}": (name, str, "the name of a kernel") for name in _items(kernels)},
            **{f"kind of notes {name!r}": (name, str, "a kind of notes") for name in _items(silenced_notes)},
            **{f"method {name!r}": (name, str, "the name of a method") for name in _keys(method_backends)},
        },
    )
    _raise_any(check_constant_methods(constant_methods or {}, methods, SCALAR_TYPES))
    _raise_any(silencing_problems(silenced_notes))
    _raise_any([problem for exported in methods.values() for problem in conversion_problems(exported)])
    _raise_any(weight_problems(methods))
    _raise_any(problems_of_others(methods))
    choice = choose_backends(methods, backend, options or {}, method_backends or {}, registry)
    rules = rules or PartitionRules()
    program_options = program_options or ProgramOptions()
    if not is_part and not any(choice.of_method.values()):
        _raise_any(idle_problems(rules, program_options, require_full_delegation))
    external = external_weights_of(methods, external_weights)
    emitting = partial(
        emit,
        external=external,
        options=program_options,
        constant_methods=constant_methods,
    )
    preserved = {
        name: [call(Backend.preserved_operators, chosen.backend) for chosen in several]
        for name, several in choice.of_method.items()
    }
    every = {name: frozenset[OpOverload]().union(*sets) for name, sets in preserved.items()}
    partitioners = {
        name: [chosen.partitioner(rules) for chosen in several]
        for name, several in choice.of_method.items()
        if several
    }

    # Buffers that other methods write to.
    state = written_state(methods.values()) if len(methods) > 1 else frozenset[str]()

    kept = _kept_weights(methods, external_weights is True)

    def edge(name: str, exported: ExportedProgram) -> EdgeProgram:
        preserve = every[name] | KERNEL_COMPOSITES
        program = to_edge(exported, method=name, preserve=preserve, state=state | external.inputs, kept=kept)
        program.owns_state = len(methods) == 1
        name_weights(program, external)
        force_channels_last(
            program,
            inputs=program_options.channels_last_inputs,
            outputs=program_options.channels_last_outputs,
        )
        if name in partitioners:
            # `to_backend` does it for the other ones.
            decompose_for(program, partitioners[name][0], preserved[name][0], later=every[name])
        return program

    with app_kernels(kernels):
        programs = _each(methods, edge)
        check = RuleCheck(rules, programs.values())
        _raise_any([] if is_part else check.problems())
        sources, texts = _sources(programs), _texts(programs) if keep_text else {}
        records = _records(programs, methods) if keep_record else {}
        locations = locations_of(programs) if require_full_delegation else {}
        reports = _each(
            partitioners,
            lambda name, several: _delegate(programs[name], several, every[name], choice.registry),
        )
        _raise_any(
            [] if is_part else check.problems_after(each for r in reports.values() for each in r.operators)
        )
        ids = {
            each.backend.id: each.backend.name for several in choice.of_method.values() for each in several
        }
        _raise_any(unquantized(reports.values(), ids))
        notes = notes_of(programs, reports, silenced_notes)
        for name in reports:
            decompose_rejected(programs[name], every[name])
        if require_full_delegation:
            _raise_any(each for name in reports for each in rejected(reports[name], programs[name].origins))
        emitted = emitting(programs)
        if require_full_delegation:
            _raise_any(kernels_left(emitted, locations))
        return Program(
            emitted=emitted,
            programs=programs,
            reports=reports,
            sources=sources,
            texts=texts,
            records=records,
            backend=choice.name,
            backends=choice.names,
            options=choice.options,
            notes=notes,
        )


def _raise_any(problems: Iterable[Diagnostic]) -> None:
    if found := [*problems]:
        raise DelegatecError(found)


def _kept_weights(methods: Mapping[str, ExportedProgram], external: bool) -> set[str]:
    """Returns the weights that a `.ptd` or several methods share: a pass must not derive others from them."""
    uses = Counter(
        spec.target
        for exported in methods.values()
        for spec in exported.graph_signature.input_specs
        if spec.target is not None
    )
    return {name for name, count in uses.items() if external or count > 1}


def _check_methods(methods: object, constant_methods: object) -> None:
    name, expected = (
        "delegatec.lower",
        "a dict of exported programs by method, as delegatec.export returns it",
    )
    if not isinstance(methods, Mapping):
        help = 'write {"forward": exported}' if isinstance(methods, ExportedProgram) else "export it first"
        raise wrong_argument(name, "methods", methods, expected, help)
    if not methods and not constant_methods:
        raise DelegatecError(
            [Diagnostic("DC415", f"methods of {name} is empty", expected=expected, help="export a model")]
        )
    for method, exported in methods.items():
        if not isinstance(method, str) or not method:
            message = f"invalid name of a method of {name}: {method!r}"
            raise DelegatecError([Diagnostic("DC415", message, expected="a name that is not empty")])
        if not isinstance(exported, ExportedProgram):
            raise wrong_argument(name, "a method", exported, "a torch.export.ExportedProgram")


def _keys(value: object) -> list[Any]:
    return list(value) if isinstance(value, Mapping) else []


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else []


def _delegate(
    program: EdgeProgram,
    partitioners: Sequence[Partitioner],
    preserved: Collection[OpOverload],
    registry: BackendRegistry,
) -> DelegationReport:
    """Delegates; a failure also reports operators that would have neither a backend nor a kernel."""
    try:
        return to_backend(program, partitioners, registry=registry).report
    except DelegatecError as error:
        decompose_rejected(program, preserved)
        kernels = [problem for part in program.walk() for problem in _without_kernel(part, partitioners)]
        raise DelegatecError([*error.diagnostics, *kernels]) from error


def _without_kernel(program: EdgeProgram, partitioners: Sequence[Partitioner]) -> list[Diagnostic]:
    delegated: set[str] = set()
    for partitioner in partitioners:
        with suppress(DelegatecError):  # Already reported.
            delegated.update(node.name for group in query(partitioner, program).groups for node in group)
    return [problem for problem in check_kernels(program) if problem.node not in delegated]


def _each(items: Mapping[str, _Item], work: Callable[[str, _Item], _Result]) -> dict[str, _Result]:
    """Applies a function to each item, and raises the problems of all."""
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
