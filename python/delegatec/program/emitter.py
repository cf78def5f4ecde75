# SPDX-License-Identifier: Apache-2.0
"""Emission of edge programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delegatec.diagnostics import DelegatecError
from delegatec.edge.hoist_constant_calls import hoist_constant_calls
from delegatec.edge.passes.pass_manager import end_stage
from delegatec.edge.passes.sink_constant_calls import sink_constant_calls
from delegatec.edge.program import EdgeProgram
from delegatec.program.constant_methods import emit_constant_method
from delegatec.program.constants import ConstantPool
from delegatec.program.emitted import EmittedProgram
from delegatec.program.external import ExternalWeights, release_inputs
from delegatec.program.kernels.check import check_kernels
from delegatec.program.kernels.dim_order import reorder_boundary
from delegatec.program.kernels.legalize import legalize
from delegatec.program.kernels.narrow_tables import narrow_tables
from delegatec.program.kernels.pack_weights import pack_weights
from delegatec.program.method_emitter import MethodEmitter
from delegatec.program.named_data import merge_named_data
from delegatec.program.options import ProgramOptions
from delegatec.program.planning.in_place import prepare_writes
from delegatec.program.planning.plans import plan_methods
from delegatec.program.planning.separate_outputs import separate_outputs
from delegatec.program.planning.state import State
from delegatec.program.planning.storages import Placing
from delegatec.program.symbolic import check_bounds
from delegatec.program.zeros import Zeros, initialize


def emit(
    programs: Mapping[str, EdgeProgram],
    *,
    external: ExternalWeights | None = None,
    options: ProgramOptions | None = None,
    constant_methods: Mapping[str, Any] | None = None,
) -> EmittedProgram:
    """Emits methods as one program. Methods share equal constants.

    Args:
        programs: name -> edge program; outputs that alias an input or a constant become copies.
        external: weights that are loaded from a `.ptd` instead of the program; none by default.
        options: layout options.
        constant_methods: name -> value of constant methods, checked by `check_constant_methods`.

    Raises:
        DelegatecError: DC201, DC202 for operators and dtypes that the runtime does not support, DC203 for
            unbounded dimensions; else DC311 for values that fit into no memory; else DC301, DC302 for
            unsupported values and arguments, DC361 for named data; problems of all methods at once.
    """
    external = external or ExternalWeights({})
    for program in programs.values():
        if external.names == external.inputs:
            pack_weights(program)
            narrow_tables(program)
        legalize(program)
        hoist_constant_calls(program)
        for each in program.walk():
            sink_constant_calls(each)
        end_stage("legalize", program)
    problems = [
        problem
        for program in programs.values()
        for problem in (*check_kernels(program), *check_bounds(program))
    ]
    if problems:
        raise DelegatecError(problems)
    release_inputs(programs.values(), external)
    pool = ConstantPool()
    emitted = EmittedProgram(methods=[], options=options or ProgramOptions())
    state = State()
    zeros: list[Zeros] = []
    placing = Placing(
        share_state=len(programs) > 1,
        plan_inputs=emitted.options.plan_inputs,
        plan_outputs=emitted.options.plan_outputs,
        external=external,
    )
    storages = {}
    for name, program in programs.items():
        reorder_boundary(program, plan_inputs=placing.plan_inputs)
        prepare_writes(program)
        storages[name] = separate_outputs(program, placing)
    plans = plan_methods(programs, storages, emitted.options.memories)
    for name, program in programs.items():
        emitter = MethodEmitter(name, program, pool, external, state, storages[name], plans.of_method[name])
        emitted.methods.append(emitter.emit())
        problems += emitter.problems
        zeros += emitter.zeros
    if problems:
        raise DelegatecError(problems)
    for method in emitted.methods:
        # methods share the arena, which has the same size in all of them
        method.state_bytes = state.size
        method.state_memory = plans.state_memory
    initialize(zeros, state.initial)
    emitted.mutable_data = state.initial.data
    for name, value in (constant_methods or {}).items():
        emitted.methods.append(emit_constant_method(name, value, pool))
    emitted.constants, emitted.constant_names = pool.data, pool.names
    emitted.named_data = merge_named_data(emitted.methods, external)
    emitted.external = external.used
    return emitted
