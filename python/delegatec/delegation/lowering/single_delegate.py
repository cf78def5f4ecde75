# SPDX-License-Identifier: Apache-2.0
"""Lowers a complete program to one delegate."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from delegatec.delegation.delegates.lowered_program import LoweredProgram
from delegatec.delegation.delegates.operators import operator_name
from delegatec.delegation.lowering.partitions import lower_view
from delegatec.delegation.partitioning.checks import query
from delegatec.delegation.plugins import call
from delegatec.delegation.protocol.backend import Backend
from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.delegation.protocol.view import PartitionView
from delegatec.delegation.registry import BackendRegistry
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.arguments import dtype_of, short_name
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar


def lower_to_single_delegate(
    backend_id: str, program: EdgeProgram, compile_specs: Sequence[CompileSpec], registry: BackendRegistry
) -> LoweredProgram:
    """Lowers a complete program to one delegate. The program is not edited.

    Args:
        backend_id: the id of the backend in the runtime.
        program: the program; the backend must support all of its nodes.
        compile_specs: settings of the backend.
        registry: the known backends.

    Raises:
        DelegatecError: see `to_backend`.
    """
    backend = registry.by_id(backend_id)
    partitioning = query(call(Backend.partitioner, backend, compile_specs), program)
    if partitioning.rejections:
        raise DelegatecError(
            Diagnostic(
                code="DC405",
                message=f"{backend_id} cannot run {operator_name(rejection.node)}: {rejection.message}",
                location=rejection.node.meta.get("source"),
                node=rejection.node.name,
                help=rejection.help,
            )
            for rejection in partitioning.rejections
        )
    nodes = [node for node in program.graph.nodes if node.op == "call_function" and not is_scalar(node)]
    view = PartitionView(program, nodes, computes_sizes=partitioning.computes_sizes)
    if not view.outputs:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC405",
                    f"{program.method} computes nothing: there is nothing to delegate to {backend_id}",
                    help="use its inputs and constants as they are",
                )
            ]
        )

    def exchanged(dtype: torch.dtype) -> torch.dtype:
        return call(Backend.boundary_dtype, backend, dtype)

    unlike = [
        each
        for each in (*view.inputs, *view.outputs)
        if isinstance(each.meta["val"], torch.Tensor)
        and exchanged(each.meta["val"].dtype) != each.meta["val"].dtype
    ]
    if unlike:
        raise DelegatecError(
            Diagnostic(
                "DC405",
                f"{backend_id} does not accept {short_name(dtype_of(each))} inputs and outputs: {each.name}",
                location=each.meta.get("source"),
                expected=short_name(exchanged(dtype_of(each))),
                help="lower it with a partitioner, which converts such inputs and outputs",
            )
            for each in unlike
        )
    delegate = lower_view(view, backend, compile_specs, program.specs_by_name())
    return LoweredProgram(delegate, program)
