# SPDX-License-Identifier: Apache-2.0
"""Exported programs of an archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch._export.serde import schema
from torch._export.verifier import SpecViolationError, TrainingIRVerifier, Verifier
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, InputKind, OutputKind
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRangeError

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.source import location_of
from delegatec.frontend.pt2.consistency import Calls
from delegatec.frontend.pt2.fields import MalformedError, entries, fail, integer, items, record, text, union
from delegatec.frontend.pt2.graph import DEEPEST, GraphReader
from delegatec.frontend.pt2.signature import calls_of, signature_of
from delegatec.frontend.pt2.targets import UnregisteredError, target_of
from delegatec.frontend.pt2.values import Values, ranges_of

_VERIFIERS: Final[dict[str, type[Verifier]]] = {"TRAINING": TrainingIRVerifier, "ATEN": Verifier}
# The exceptions that torch raises for values that contradict each other.
_REJECTIONS: Final = (
    *(SpecViolationError, ConstraintViolationError, GuardOnDataDependentSymNode, ValueRangeError),
    *(RuntimeError, ValueError, TypeError, AssertionError, AttributeError, LookupError, ArithmeticError),
)

Example = tuple[tuple[Any, ...], dict[str, Any]]


def read_program(
    stored: dict[str, Any],
    weights: dict[str, torch.Tensor],
    constants: dict[str, torch.Tensor],
    example: Example | None,
) -> ExportedProgram:
    """Returns an exported program.

    Args:
        stored: its JSON.
        weights: parameters and persistent buffers by name.
        constants: other buffers and constants by name.
        example: positional and keyword arguments.

    Raises:
        MalformedError: the program is invalid.
        DelegatecError: DC121, it calls operators that are not registered.
    """
    version = record(stored.get("schema_version"), "schema_version").get("major")
    if integer(version, "schema version") != schema.SCHEMA_VERSION[0]:
        fail(f"schema version {version}; expected {schema.SCHEMA_VERSION[0]}")
    module = record(stored.get("graph_module"), "graph_module")
    if problems := _unregistered(record(module.get("graph"), "graph")):
        raise DelegatecError(problems)
    try:
        return _program(stored, module, weights, constants, example)
    except (MalformedError, DelegatecError):
        raise
    except _REJECTIONS as error:
        raise MalformedError(f"torch rejects the program: {type(error).__name__}: {error}") from error


def _program(
    stored: dict[str, Any],
    module: dict[str, Any],
    weights: dict[str, torch.Tensor],
    constants: dict[str, torch.Tensor],
    example: Example | None,
) -> ExportedProgram:
    signature = signature_of(module.get("signature"))
    calls = calls_of(module.get("module_call_graph"))
    values = Values(ranges_of(stored.get("range_constraints")))
    names = [
        spec.arg.name if isinstance(spec.arg, ConstantArgument) else "" for spec in signature.input_specs
    ]
    checked = Calls(values.mode)
    graph_module = GraphReader(values, checked).read(module["graph"], names)
    _check_signature(graph_module, signature, weights, constants)
    checked.check(graph_module.graph)
    assert calls[0].signature is not None
    _check_trees(signature, calls[0].signature.in_spec, calls[0].signature.out_spec)
    if example is not None:
        _check_example(graph_module, signature, calls[0].signature.in_spec, example)
    # The constructor would generate code.
    program = ExportedProgram.__new__(ExportedProgram)
    program._graph_module = graph_module
    program._graph_signature = signature
    program._state_dict = weights
    program._range_constraints = values.ranges()
    program._module_call_graph = calls
    program._example_inputs = example
    program._constants = dict(constants)
    program._verifiers = [_verifier(each) for each in items(stored.get("verifiers", []), "verifiers")] or [
        Verifier
    ]
    program._guards_code = []  # torch would evaluate them
    program.validate()  # type: ignore[no-untyped-call]
    return program


def _verifier(dialect: Any) -> type[Verifier]:
    return _VERIFIERS.get(text(dialect, "verifier")) or fail(f"unknown dialect {dialect}")


def _check_signature(
    module: GraphModule,
    signature: ExportGraphSignature,
    weights: Mapping[str, torch.Tensor],
    constants: Mapping[str, torch.Tensor],
) -> None:
    """Checks that the stored tensors are those that the graph describes."""
    placeholders = module.graph.find_nodes(op="placeholder")
    if len(placeholders) != len(signature.input_specs):
        fail(f"{len(signature.input_specs)} inputs in the signature, {len(placeholders)} in the graph")
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            continue
        stored = weights if spec.kind is InputKind.PARAMETER or spec.persistent else constants
        tensor = stored.get(str(spec.target))
        value = node.meta["val"]
        if tensor is None:
            fail(f"{spec.target} is not stored")
        if not isinstance(value, torch.Tensor) or _form(value) != _form(tensor):
            fail(f"{spec.target} is {_text(tensor)}; the graph says {_text(value)}")
    (output,) = module.graph.find_nodes(op="output")
    if type(output.args[0]) is not tuple or len(output.args[0]) != len(signature.output_specs):
        fail("outputs of signature and graph do not match")


def _form(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Returns dtype, sizes, and the strides that matter."""
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
    return tensor.dtype, tuple(tensor.shape), strides if tensor.numel() else ()


def _text(tensor: Any) -> str:
    if not isinstance(tensor, torch.Tensor):
        return type(tensor).__name__
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _check_trees(
    signature: ExportGraphSignature, in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec
) -> None:
    inputs = sum(spec.kind is InputKind.USER_INPUT for spec in signature.input_specs)
    outputs = sum(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs)
    if (in_spec.num_leaves, out_spec.num_leaves) != (inputs, outputs):
        fail("in_spec or out_spec does not match the signature")


def _check_example(
    module: GraphModule, signature: ExportGraphSignature, in_spec: pytree.TreeSpec, example: Example
) -> None:
    """Checks example inputs against the placeholders."""
    args, kwargs = example
    names = in_spec.children()[1].context
    if set(kwargs) != set(names):
        fail("example inputs do not match in_spec")
    leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in names}))
    if spec != in_spec:
        fail("example inputs do not match in_spec")
    placeholders = module.graph.find_nodes(op="placeholder")
    inputs = [
        node.meta.get("val")
        for node, each in zip(placeholders, signature.input_specs, strict=True)
        if each.kind is InputKind.USER_INPUT
    ]
    for leaf, value in zip(leaves, inputs, strict=True):
        if isinstance(leaf, torch.Tensor) != isinstance(value, torch.Tensor):
            fail("example inputs do not match the graph")
        if not isinstance(leaf, torch.Tensor):
            continue
        sizes = zip(leaf.shape, value.shape, strict=False)
        if (
            leaf.dtype != value.dtype
            or leaf.dim() != value.dim()
            or any(type(wanted) is int and size != wanted for size, wanted in sizes)
        ):
            fail(f"an example input is {_text(leaf)}; the graph says {_text(value)}")


def _unregistered(graph: dict[str, Any]) -> list[Diagnostic]:
    """Returns a diagnostic for each operator of a stored graph that is not registered."""
    found: dict[str, Diagnostic] = {}
    for node in _nodes(graph, 0):
        target = text(node.get("target"), "target")
        try:
            target_of(target)
        except UnregisteredError as missing:
            trace = record(node.get("metadata"), "metadata").get("stack_trace") or ""
            found[target] = Diagnostic(
                code="DC121",
                message=f"operator {missing} is not registered",
                location=location_of(text(trace, "stack_trace")),
                expected="torch operators, or custom operators registered in the lowering process",
                help="list an app_kernels in `kernels` of the exported_program (--kernel-module), or lower "
                "with a backend whose module registers it",
            )
    return list(found.values())


def _nodes(graph: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    for node in entries(graph.get("nodes"), "nodes", record):
        yield node
        for each in entries(node.get("inputs"), "inputs", record):
            kind, content = union(each.get("arg"), "argument")
            if kind == "as_graph" and depth < DEEPEST:
                yield from _nodes(record(record(content, "body").get("graph"), "graph"), depth + 1)
