# SPDX-License-Identifier: Apache-2.0
"""The parts of a program outside of delegates, as errors: all, nodes that no backend took, and copies."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from delegatec.delegation import DelegationReport, RejectionSummary
from delegatec.diagnostics import Diagnostic, SourceLocation
from delegatec.edge import EdgeProgram
from delegatec.edge.handles import Origin
from delegatec.edge.kernels import PRIMITIVES
from delegatec.program.emitted import EmittedMethod, EmittedProgram, KernelCall

# Method -> debug handle -> the user's line.
Locations = Mapping[str, Mapping[int, SourceLocation]]

# Kernel -> its purpose there, and how to avoid it. All other kernels are nodes of the model.
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

# Rules that reject nodes which are supported elsewhere: another node is the cause, if there is one.
_CONSEQUENCES: Final = ("boundary", "trivial")
# The rule of backends without floating-point arithmetic that rejects values that are not quantized.
_UNQUANTIZED: Final = "quantized"


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


def rejected(report: DelegationReport, origins: Mapping[int, Origin]) -> list[Diagnostic]:
    """Returns an error for each reason that rejects operators of a line, as the user's code calls them.

    Args:
        report: of a method.
        origins: debug handle -> operator of the exported program, of whose decomposition nodes are parts.
    """
    calls: dict[Hashable, list[RejectionSummary]] = {}
    for each in report.rejections:
        call = each.debug_handle if each.debug_handle in origins else each.node
        calls.setdefault((each.backend_id, call), []).append(each)
    lines: dict[Hashable, list[tuple[RejectionSummary, str]]] = {}
    for parts in calls.values():
        cause = min(parts, key=lambda each: each.rule in _CONSEQUENCES)
        origin = origins.get(cause.debug_handle)
        operator = cause.operator if origin is None else origin.operator
        line = (cause.backend_id, cause.location or cause.node, cause.message)
        lines.setdefault(line, []).append((cause, operator))
    return [_problem(causes) for causes in lines.values()]


def _problem(causes: Sequence[tuple[RejectionSummary, str]]) -> Diagnostic:
    """Returns the error of operators that are rejected for one reason, each with a node that is the cause."""
    first, _ = causes[0]
    operators = list(dict.fromkeys(operator for _, operator in causes))
    helps = [cause.help for cause, operator in causes if _is_help(cause, operator)]
    message = f"{first.backend_id} rejected {', '.join(operators)}: {first.message}"
    if len(causes) == 1 and not _is_same(first.operator, operators[0]):
        message += f" (in its decomposition: {first.operator})"
    return Diagnostic(
        code="DC405",
        message=message,
        location=first.location,
        node=first.node,
        help=next(filter(None, helps), "choose another operator, or let this one run on the CPU"),
    )


def _is_help(cause: RejectionSummary, operator: str) -> bool:
    """Whether the help for a node is one for the user's call: dtypes inside of it are not the user's."""
    return cause.rule != "dtype" or _is_same(cause.operator, operator)


def _is_same(operator: str, other: str) -> bool:
    """Whether two operators differ in the overload only."""
    return operator.rpartition(".")[0] == other.rpartition(".")[0]


def unquantized(reports: Iterable[DelegationReport], names: Mapping[str, str]) -> list[Diagnostic]:
    """Returns an error for each backend that delegates nothing because the model is not quantized.

    A method of which another backend takes a part is as its user wrote it: the other one is for the rest.

    Args:
        reports: of all methods.
        names: id of a backend -> its name.
    """
    first: dict[str, RejectionSummary] = {}
    used: set[str] = set()
    for report in reports:
        for each in report.rejections:
            if report.delegates:
                used.add(each.backend_id)
            elif each.rule == _UNQUANTIZED:
                first.setdefault(each.backend_id, each)
    return [
        Diagnostic(
            code="DC424",
            message=f"{names.get(backend, backend)} computes in integers and delegates nothing of the model: "
            f"{each.operator}: {each.message}",
            location=each.location,
            node=each.node,
            expected="a model with quantized activations",
            help="lower the result of quantized_program (`delegatec quantize`): activation int8 or int16",
        )
        for backend, each in first.items()
        if backend not in used
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
