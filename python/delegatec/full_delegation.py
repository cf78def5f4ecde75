# SPDX-License-Identifier: Apache-2.0
"""What a program leaves outside of delegates, as errors: nodes that no backend took, and copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from delegatec.delegation import DelegationReport
from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.edge import EdgeProgram
from delegatec.edge.kernels import PRIMITIVES
from delegatec.program.emitted import EmittedMethod, EmittedProgram, KernelCall

# Method -> debug handle -> the user's line.
Locations = Mapping[str, Mapping[int, SourceLocation]]

# Kernel -> what it does there, and what avoids it. All other kernels are nodes of the model.
_COPIES: Final = {
    "aten::copy_": (
        "it writes to a buffer or an input what a delegate computed",
        "return the value instead, or choose a backend that keeps state in its delegates",
    ),
    "aten::clone.out": (
        "it copies an input, a constant or another output to an output",
        "return each computed value once, and nothing else",
    ),
    "dim_order_ops::_to_dim_order_copy.out": (
        "it converts between contiguous and channels-last at the border of a delegate",
        "export the model with examples in the order of dimensions that the backend takes",
    ),
    "aten::_to_copy.out": (
        "it converts the dtype of a value at the border of a delegate",
        "use dtypes that the backend supports for inputs and outputs",
    ),
}
_OTHER: Final = ("it runs on the CPU", "choose another operator, or another backend")


def locations_of(programs: Mapping[str, EdgeProgram]) -> dict[str, dict[int, SourceLocation]]:
    """Returns the line of each debug handle. Call it before delegation removes nodes from the graph."""
    return {
        name: {
            node.meta["debug_handle"]: node.meta["source"]
            for part in program.walk()
            for node in part.graph.nodes
            if node.meta.get("debug_handle") is not None and node.meta.get("source") is not None
        }
        for name, program in programs.items()
    }


def rejected(report: DelegationReport) -> list[Diagnostic]:
    """Returns an error for each node that a backend rejected."""
    return [
        Diagnostic(
            code="DC405",
            message=f"{rejection.backend_id} rejected {rejection.operator}: {rejection.message}",
            location=rejection.location,
            node=rejection.node,
            help=rejection.help or "choose another operator, or let this one run on the CPU",
        )
        for rejection in report.rejections
    ]


def kernels_left(emitted: EmittedProgram, locations: Locations) -> list[Diagnostic]:
    """Returns an error for each call of a kernel that is not part of the runtime itself.

    Args:
        emitted: a program without rejected nodes.
        locations: of `locations_of`.
    """
    return [problem for method in emitted.methods for problem in _of_method(method, locations)]


def _of_method(method: EmittedMethod, locations: Locations) -> Iterable[Diagnostic]:
    lines = locations.get(method.name, {})
    for instruction, handles in zip(method.instructions, method.debug_handles, strict=True):
        if not isinstance(instruction, KernelCall):
            continue
        kernel = ".".join(filter(None, method.operators[instruction.operator]))
        if kernel not in PRIMITIVES:
            purpose, help = _COPIES.get(kernel, _OTHER)
            yield Diagnostic(
                code="DC417",
                message=f"{kernel} is left outside of delegates in method {method.name}: {purpose}",
                location=next((lines[handle] for handle in handles if handle in lines), None),
                help=help,
            )
