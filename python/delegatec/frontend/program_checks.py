# SPDX-License-Identifier: Apache-2.0
"""Checks of exported programs that no backend is needed for: bounds, calls, constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils._sympy.numbers import int_oo

from delegatec.diagnostics import Diagnostic
from delegatec.edge.exported_checks import exported_problems
from delegatec.edge.source import location_of
from delegatec.frontend.causes import PACKED
from delegatec.frontend.model import Model
from delegatec.frontend.module_checks import not_storable
from delegatec.frontend.storable import storable_problems

# Sizes of tensors are 32-bit integers in a .pte.
_LARGEST_SIZE: Final = 2**31 - 1


def program_problems(program: ExportedProgram, model: Model) -> list[Diagnostic]:
    """Returns all problems of a program.

    Args:
        program: with canonical metadata.
        model: the model that it was exported from.
    """
    constants = [*_not_storable(program, model)]
    return [
        *_unbounded(program, model),
        *(
            replace(problem, location=problem.location or model.location)
            for problem in exported_problems(program)
        ),
        *_sparse(program, model),
        *_packed(program, model),
        *constants,
        *_reference_representation(program, model),
        *_outputs(program, model),
        *([] if constants else storable_problems(program, model.location)),  # often their cause
    ]


def _unbounded(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    inputs = {
        spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT
    }
    named: set[str] = set()
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name not in inputs or not isinstance(value, torch.Tensor):
            continue
        for dim, size in enumerate(value.shape):
            for symbol in sorted(_symbols(size), key=str):
                bounds = program.range_constraints.get(symbol)
                upper = int_oo if bounds is None else bounds.upper
                if str(symbol) in named or upper <= _LARGEST_SIZE:
                    continue
                named.add(str(symbol))
                if upper < int_oo:
                    yield Diagnostic(
                        code="DC114",
                        message=f"dimension {dim} of input {node.name} ({size}) has the upper bound {upper}",
                        location=model.location,
                        expected=f"at most {_LARGEST_SIZE}: the runtime plans memory ahead of time",
                        help="set its max to the largest size that the model needs",
                    )
                    continue
                yield Diagnostic(
                    code="DC114",
                    message=f"dimension {dim} of input {node.name} ({size}) has no upper bound",
                    location=model.location,
                    expected="a bound for each dynamic dimension: the runtime plans memory ahead of time",
                    help=f'set one in dynamic_shapes: torch.export.Dim("{node.name}_{dim}", min=1, max=...)',
                )


def _symbols(size: Any) -> set[Any]:
    return set() if isinstance(size, int) else set(size.node.expr.free_symbols)


def _outputs(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    results = [
        spec.arg for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT
    ]
    for index, result in enumerate(results):
        value = result.value if isinstance(result, ConstantArgument) else None
        if value is not None and not isinstance(value, (bool, int, float)):
            yield Diagnostic(
                code="DC119",
                message=f"output {index} is of type {type(value).__name__}: {value!r}",
                location=model.location,
                expected="tensors, Python scalars, None, and containers of these",
                help="do not return it; a constant method of delegatec.Model can",
            )


def _sparse(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            layout = str(value.layout).removeprefix("torch.")
            yield Diagnostic(
                code="DC119",
                message=f"{node.target} returns a tensor with layout {layout}",
                location=location_of(node.meta.get("stack_trace")) or model.location,
                node=node.name,
                expected="strided tensors",
                help="compute with dense tensors: programs have no sparse ones",
            )


def _packed(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    packing = program.graph.find_nodes(
        op="call_function", target=torch.ops.aten._pack_padded_sequence.default
    )
    for node in packing[:1]:
        yield Diagnostic(
            code="DC119",
            message=f"forward() {PACKED.message}",
            location=location_of(node.meta.get("stack_trace")) or model.location,
            expected=PACKED.expected,
            help=PACKED.help,
        )


def _reference_representation(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.out_dtype)[:1]:
        yield Diagnostic(
            code="DC119",
            message="the graph of PT2E computes in integers (torch.ops.higher_order.out_dtype)",
            location=location_of(node.meta.get("stack_trace")) or model.location,
            expected="operators on floats between quantize and dequantize, which backends recognize",
            help="call convert_pt2e without use_reference_representation",
        )


def _not_storable(program: ExportedProgram, model: Model) -> Iterator[Diagnostic]:
    for name, value in {**program.state_dict, **program.constants}.items():
        if problem := not_storable(name, value, model):
            yield problem
