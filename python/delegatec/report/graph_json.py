# SPDX-License-Identifier: Apache-2.0
"""JSON of edge programs for the peer's tools: version 5.4 of torch.export's schema, which they froze.

torch's own serializer (schema 8) creates the objects; here they become plain values, without fields that 5.4
lacks, and with its codes of dtypes. The peer's reader rejects unknown fields. Source: ExecuTorch 1.4.1,
`executorch.exir.serde.schema`; `tests/peer/etrecord_test.py` compares it with the tables here.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import sympy
import torch
from torch._export.serde import schema
from torch._export.serde.serialize import (
    GraphModuleSerializer,
    SerializeError,
    serialize_range_constraints,
)
from torch._export.serde.union import _Union
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import ConstantArgument, ExportGraphSignature, TensorArgument
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.utils._sympy import functions

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.quiet import quiet_logs
from delegatec.edge.out_variants import VIEW_COPIES
from delegatec.edge.program import EdgeProgram
from delegatec.report.body_constants import as_input, lift_constants

SCHEMA_VERSION: Final = {"major": 5, "minor": 4}

# Fields added by schema 8, all with a default that the peer assumes.
ADDED_FIELDS: Final[dict[str, frozenset[str]]] = {
    "Graph": frozenset({"sym_float_values"}),
    "GraphModule": frozenset({"metadata", "treespec_namedtuple_fields"}),
    "ModuleCallSignature": frozenset({"forward_arg_names"}),
    "NamedArgument": frozenset({"kind"}),
    "Node": frozenset({"is_hop_single_tensor_return"}),
}
# Union members added by schema 8: programs that need one cannot be represented.
ADDED_KINDS: Final = frozenset(
    {
        "as_complex",
        "as_float_lists",
        "as_int_lists",
        "as_nested_tensors",
        "as_optional_tensor",
        "as_string_to_argument",
        "as_sym_float",
        "as_sym_floats",
        "parameter_mutation",
    }
)
# Codes of dtypes that differ; up to BFLOAT16 = 13 they agree, and 5.4 lacks the others.
MOVED_DTYPES: Final = {"UINT16": 14, "FLOAT8E5M2": 15, "FLOAT8E4M3FN": 16}
LAST_COMMON_DTYPE: Final = 13
# Node metadata to keep. The rest refers to Python objects of the exporting process.
_METADATA: Final = ("nn_module_stack", "stack_trace")
# The tools run the program in eager mode, where views of views would have strides, which edge programs lack.
_COPYING: Final = {f"torch.ops.{view}": f"torch.ops.{copy}" for view, copy in VIEW_COPIES.items()}
# torch's own functions in symbolic expressions, such as FloorDiv.
_FUNCTIONS: Final = {name: value for name, value in vars(functions).items() if isinstance(value, type)}


class _NotInSchemaError(ValueError):
    """The program cannot be represented in schema 5.4."""


def graph_json(program: EdgeProgram) -> tuple[bytes, dict[str, torch.Tensor]]:
    """Returns an edge program as a serialized exported program, with debug handles in the nodes' metadata.

    Args:
        program: the program, without delegates.

    Returns:
        The JSON; and name -> tensor of constants that only bodies of control flow read, which become
        constants of the whole program.

    Raises:
        DelegatecError: DC422, the peer's schema cannot represent the program.
    """
    try:
        return _json(program)
    except (SerializeError, NotImplementedError, ValueError) as error:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC422",
                    f"cannot write method {program.method} to an ETRecord: {str(error).splitlines()[0]}",
                    expected="a program that ExecuTorch's exported-program schema 5.4 can represent",
                    help="use the debug map (--debug) instead",
                )
            ]
        ) from error


def _json(program: EdgeProgram) -> tuple[bytes, dict[str, torch.Tensor]]:
    signature = ExportGraphSignature(program.input_specs, list(_output_specs(program)))
    calls = ModuleCallSignature([], [], program.in_spec, program.out_spec)
    serializer = GraphModuleSerializer(signature, [ModuleCallEntry("", calls)])
    with quiet_logs():  # torch warns of control flow without extra operands
        serialized = serializer.serialize(program.graph_module)
    _annotate(program, serialized.graph)
    lifted = _lift(program, serialized)
    content = json.dumps(
        {
            "graph_module": _plain(serialized),
            "opset_version": {"aten": torch._C._get_max_operator_version()},
            "range_constraints": _plain(serialize_range_constraints(_ranges(program))),
            "schema_version": SCHEMA_VERSION,
            "verifiers": ["ATEN"],
            "dialect": "ATEN",
        },
        separators=(",", ":"),
    ).encode()
    return content, lifted


def _annotate(program: EdgeProgram, graph: schema.Graph) -> None:
    """Keeps the metadata for the tools, adds debug handles, and turns views into copies; in bodies, too."""
    nodes = {node.name: node for node in program.graph.nodes}
    bodies = {str(nodes[name].target): body for name, body in program.bodies.items()}
    for call in graph.nodes:
        call.metadata = {key: call.metadata[key] for key in _METADATA if key in call.metadata}
        call.target = _COPYING.get(call.target, call.target)
        node = nodes.get(call.name or "")
        if node is not None and "debug_handle" in node.meta:
            call.metadata["debug_handle"] = str(node.meta["debug_handle"])
        for argument in call.inputs:
            if argument.arg.type == "as_graph":
                _annotate(bodies[argument.arg.as_graph.name], argument.arg.as_graph.graph)
                call.outputs = _several(call.outputs)


def _several(outputs: list[schema.Argument]) -> list[schema.Argument]:
    """Converts results of control flow: always a tuple, while 5.4 unpacks a single tensor."""
    if len(outputs) != 1 or outputs[0].type != "as_tensor":
        return outputs
    return [schema.Argument.create(as_tensors=[outputs[0].as_tensor])]  # type: ignore[no-untyped-call]


def _lift(program: EdgeProgram, serialized: schema.GraphModule) -> dict[str, torch.Tensor]:
    """Turns constants that only bodies read into inputs of the program."""
    if not program.bodies:
        return {}
    known = {node.name for node in program.placeholders()}
    targets = {spec.target for spec in program.input_specs}
    lifted: dict[str, torch.Tensor] = {}
    for constant in lift_constants(program, serialized.graph).values():
        if constant.name in known:
            continue
        target = constant.target
        while target in targets:  # another tensor with this name
            target += "_"
        targets.add(target)
        lifted[target] = constant.value
        spec = schema.InputToTensorConstantSpec(schema.TensorArgument(constant.name), target)
        serialized.graph.inputs.insert(0, as_input(constant))
        serialized.signature.input_specs.insert(
            0,
            schema.InputSpec.create(tensor_constant=spec),  # type: ignore[no-untyped-call]
        )
    return lifted


def _ranges(program: EdgeProgram) -> dict[Any, Any]:
    """Returns the ranges of the remaining symbols, without torch's temporaries."""
    values = [node.meta.get("val") for node in program.graph.nodes]
    used = {symbol for val in values if val is not None for symbol in free_symbols(val)}
    return {symbol: bounds for symbol, bounds in program.range_constraints.items() if symbol in used}


def _output_specs(program: EdgeProgram) -> Iterator[Any]:
    """Returns the output specs with the current names of results."""
    results: Any = program.output_node().args[0]
    for spec, result in zip(program.output_specs, results, strict=True):
        arg: Any = spec.arg
        if isinstance(arg, TensorArgument) and isinstance(result, Node):
            arg = TensorArgument(result.name)
        elif not isinstance(result, Node):
            arg = ConstantArgument(name="", value=result)
        yield dataclasses.replace(spec, arg=arg)


def _plain(value: Any) -> Any:
    if isinstance(value, schema.ScalarType):
        return _dtype(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _Union):
        if value.type in ADDED_KINDS:
            raise _NotInSchemaError(f"a value of kind {value.type}")
        return {str(value.type): _plain(value.value)}
    if isinstance(value, schema.RangeConstraint):
        low, high = value.min_val, value.max_val
        return {"min_val": -math.inf if low is None else low, "max_val": math.inf if high is None else high}
    if isinstance(value, schema.SymExpr):
        # 5.4 stores printed expressions ("2*s0"), 8 constructor calls ("Mul(Integer(2), Symbol('s0'))")
        text = str(sympy.sympify(value.expr_str, locals=_FUNCTIONS))
        return {"expr_str": text, "hint": _plain(value.hint)}
    if dataclasses.is_dataclass(value):
        added = ADDED_FIELDS.get(type(value).__name__, frozenset())
        names = [field.name for field in dataclasses.fields(value) if field.name not in added]
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _dtype(dtype: schema.ScalarType) -> int:
    if dtype.value <= LAST_COMMON_DTYPE:
        return int(dtype.value)
    if dtype.name not in MOVED_DTYPES:
        raise _NotInSchemaError(f"dtype {dtype.name.lower()}")
    return MOVED_DTYPES[dtype.name]
