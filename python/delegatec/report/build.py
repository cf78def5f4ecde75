# SPDX-License-Identifier: Apache-2.0
"""Construction of the manifest from the compiler's data structures and from the file itself."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch.fx import Node
from torch.utils._pytree import treespec_loads

from delegatec.delegation import (
    Backend,
    DelegationReport,
    RejectionSummary,
    call_delegate,
)
from delegatec.diagnostics import SourceLocation
from delegatec.diagnostics.notes import Note
from delegatec.edge.dim_orders import REORDERS
from delegatec.edge.program import EdgeProgram
from delegatec.program.emitted import EmittedMethod, EmittedProgram
from delegatec.program.options import Memory
from delegatec.program.reader import read_program
from delegatec.program.reader.model import Dynamism, Method, Program, Tensor
from delegatec.program.reader.state import state_of
from delegatec.report.arenas import arenas_of
from delegatec.report.delegates import delegates_of
from delegatec.report.file_parts import file_info
from delegatec.report.graph import operator_graph
from delegatec.report.inspection import kernel_counts, layout_name
from delegatec.report.lowered_model import LoweredModel
from delegatec.report.manifest import SCHEMA_VERSION, FileInfo, Manifest
from delegatec.report.memory_info import ArenaInfo, DeclaredMemory, MemoryInfo, PlannedStorage
from delegatec.report.methods import (
    Argument,
    ConstantMethod,
    Location,
    MethodInfo,
    NotDelegated,
    NoteInfo,
    QuantizedValue,
    Weight,
)
from delegatec.report.needs import needs_of
from delegatec.report.paths import input_paths, output_paths


def build_manifest(
    lowered: LoweredModel,
    pte: Path | str,
    *,
    compiler: str = "",
    label: str = "",
    checksums: Mapping[tuple[int, int], int] | None = None,
    flags: Sequence[str] = (),
    quantized: Mapping[str, tuple[QuantizedValue, ...]] | None = None,
    backends: Iterable[Backend] = (),
) -> Manifest:
    """Returns the manifest of a program that was just built.

    Args:
        lowered: the compiled model.
        pte: the file that it was written to.
        compiler: name and version of the compiler.
        label: the target that was built.
        checksums: (offset, size) -> CRC-32 of ranges of the file, which are not read then.
        flags: those of `delegatec lower` that control delegation and layout.
        quantized: method -> its quantized values, before it was lowered.
        backends: the registry: they know what delegates take of an app's allocators.

    Raises:
        DelegatecError: DC35x, the file cannot be read.
    """
    program = read_program(pte)
    file = file_info(program, pte, checksums or {})
    arenas = arenas_of(program, backends, has_weights=bool(lowered.emitted.external))
    methods = []
    for plan in lowered.emitted.methods:
        if plan.name not in lowered.programs:
            continue
        report = lowered.reports.get(plan.name, DelegationReport())
        requested = tuple(lowered.backends[plan.name])
        method = _method(
            file,
            program.method(plan.name),
            requested,
            plan,
            lowered.programs[plan.name],
            report,
            lowered.emitted.options.memories,
        )
        values = (quantized or {}).get(plan.name, ())
        notes = tuple(map(_note, lowered.notes.get(plan.name, ())))
        methods.append(replace(method, quantized=values, arenas=arenas[plan.name], notes=notes))
    return Manifest(
        schema_version=SCHEMA_VERSION,
        compiler=compiler,
        label=label,
        backend=lowered.backend,
        options=dict(sorted(lowered.options.items())),
        methods=tuple(methods),
        constant_methods=tuple(_constant_methods(program, lowered.programs, arenas)),
        weights=tuple(_weights(program, lowered.emitted)),
        file=file,
        flags=tuple(flags),
        runtime=needs_of(program),
    )


def _constant_methods(
    program: Program, programs: Mapping[str, EdgeProgram], arenas: Mapping[str, ArenaInfo]
) -> Iterable[ConstantMethod]:
    for method in program.methods:
        if method.name not in programs:
            names = [f"{method.name}_{index}" for index in range(len(method.outputs))]
            paths = output_paths(treespec_loads(method.out_spec))
            outputs = tuple(_arguments(method, method.outputs, names, paths))
            yield ConstantMethod(method.name, outputs, arenas[method.name])


def _method(
    file: FileInfo,
    method: Method,
    backends: tuple[str, ...],
    emitted: EmittedMethod,
    edge: EdgeProgram,
    report: DelegationReport,
    memories: Sequence[Memory],
) -> MethodInfo:
    instructions = method.chains[0].instructions
    inputs, outputs = [node.name for node in edge.user_inputs()], _output_names(edge, report)
    delegates = tuple(delegates_of(file, method, emitted, report))
    graph = operator_graph(edge, {delegate.name: i for i, delegate in enumerate(delegates)})
    left = sum(node.delegate is None for node in graph)
    delegated = sum(summary.multiplications for summary in report.delegates)
    return MethodInfo(
        name=method.name,
        backends=backends,
        inputs=tuple(_arguments(method, method.inputs, inputs, input_paths(edge.in_spec))),
        outputs=tuple(_arguments(method, method.outputs, outputs, output_paths(edge.out_spec))),
        nodes=report.nodes_before or left,
        nodes_delegated=report.nodes_delegated,
        instructions=len(instructions),
        kernels=kernel_counts(method),
        delegates=delegates,
        not_delegated=tuple(map(_not_delegated, report.rejections)),
        memory=_memory(emitted, memories),
        graph=graph,
        multiplications=report.multiplications_left + delegated,
        multiplications_delegated=delegated,
    )


def _arguments(
    method: Method, indices: Iterable[int], names: Iterable[str], paths: Iterable[str]
) -> Iterable[Argument]:
    for index, name, path in zip(indices, names, paths, strict=True):
        value = method.values[index]
        if isinstance(value, Tensor):
            dynamic = value.dynamism is not Dynamism.STATIC
            yield Argument(name, value.kind.name, value.sizes, dynamic, path, layout_name(value))
        else:
            yield Argument(repr(value), type(value).__name__, (), False, path)


def _output_names(edge: EdgeProgram, report: DelegationReport) -> list[str]:
    before = {summary.module.name: summary.output_names for summary in report.delegates}
    results = edge.output_node().args[0]
    assert isinstance(results, (list, tuple))
    kept = [
        result
        for result, spec in zip(results, edge.output_specs, strict=True)
        if spec.kind.name == "USER_OUTPUT"
    ]
    return [_output_name(result, before) if isinstance(result, Node) else repr(result) for result in kept]


def _output_name(node: Node, before: Mapping[str, tuple[str, ...]]) -> str:
    """Returns the name of a result; for results of delegates, and copies, the name before delegation."""
    if "crossing" in node.meta:
        return str(node.meta["crossing"])
    if node.target is REORDERS:
        (source,) = node.all_input_nodes
        return _output_name(source, before)
    if node.target is operator.getitem:
        call, index = node.args
        if isinstance(call, Node) and call.target is call_delegate and isinstance(call.args[0], Node):
            names = before.get(str(call.args[0].target))  # None for a delegate of the exported program
            assert isinstance(index, int)
            return names[index] if names is not None else node.name
    return node.name


def _not_delegated(rejection: RejectionSummary) -> NotDelegated:
    return NotDelegated(
        node=rejection.node,
        operator=rejection.operator,
        backend=rejection.backend_id,
        rule=rejection.rule,
        message=rejection.message,
        help=rejection.help,
        location=_location(rejection.location),
    )


def _note(note: Note) -> NoteInfo:
    return NoteInfo(note.name, note.message, note.help, _location(note.location))


def _location(source: SourceLocation | None) -> Location | None:
    """Converts a source location."""
    return None if source is None else Location(source.file, source.line, source.function, source.text)


def _memory(method: EmittedMethod, memories: Sequence[Memory]) -> MemoryInfo:
    plan = method.memory_plan
    return MemoryInfo(
        arena_bytes=plan.arena_size,
        lower_bound_bytes=plan.lower_bound,
        order=plan.order,
        storages=tuple(
            PlannedStorage(s.name, s.size, s.offset, s.first, s.last, s.memory, s.uses) for s in plan.storages
        ),
        memories=tuple(
            DeclaredMemory(
                memory.name,
                memory.bytes,
                size,
                method.state_bytes if memory.name == method.state_memory else 0,
            )
            for memory, size in zip(memories, plan.sizes, strict=False)
        ),
    )


def _weights(program: Program, emitted: EmittedProgram) -> Iterable[Weight]:
    """Returns the weights: names from the compiler, the rest from the file."""
    constants: dict[int, Tensor] = {}
    mutable: dict[str, Tensor] = {}
    external: dict[str, Tensor] = {}
    for method in program.methods:
        for value in method.values:
            if isinstance(value, Tensor) and value.external_key is not None:
                external.setdefault(value.external_key, value)
            elif isinstance(value, Tensor) and value.data is not None and value.is_constant:
                constants.setdefault(value.data_index, value)
        for value in state_of(method):
            if value.external_key is None:
                mutable.setdefault(value.name, value)
    for index, names in enumerate(emitted.constant_names, start=1):
        if index in constants:
            tensor = constants[index]
            yield Weight(names, tensor.kind.name, tensor.sizes, tensor.nbytes, mutable=False)
    for tensor in mutable.values():
        yield Weight((tensor.name,), tensor.kind.name, tensor.sizes, tensor.nbytes, mutable=True)
    for key, tensor in external.items():
        is_state = tensor.allocation is not None
        yield Weight((key,), tensor.kind.name, tensor.sizes, tensor.nbytes, is_state, external=True)
