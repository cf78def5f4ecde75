# SPDX-License-Identifier: Apache-2.0
"""Signatures of an archive: the kind of each input and output of a graph, and how callers pass them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from delegatec.frontend.pt2.arguments import NAMED, constant, result_name
from delegatec.frontend.pt2.fields import (
    entries,
    fail,
    flag,
    items,
    name,
    qualified_name,
    record,
    text,
    union,
)
from delegatec.frontend.pt2.trees import tree_of

_ARGUMENTS: Final[dict[str, Callable[[str], Any]]] = {
    "as_tensor": TensorArgument,
    "as_sym_int": SymIntArgument,
    "as_sym_float": SymFloatArgument,
    "as_sym_bool": SymBoolArgument,
}
# Kind of input or output -> kind, and key of the name of its target.
_STORED_INPUTS: Final = {
    "parameter": (InputKind.PARAMETER, "parameter_name"),
    "buffer": (InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
}
_WRITTEN_OUTPUTS: Final = {
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
}
_PLAIN: Final = frozenset({"as_none", "as_int", "as_float", "as_string", "as_bool"})


def signature_of(stored: Any) -> ExportGraphSignature:
    """Returns the signature of a graph."""
    signature = record(stored, "signature")
    return ExportGraphSignature(
        entries(signature.get("input_specs"), "input_specs", _input),
        entries(signature.get("output_specs"), "output_specs", _output),
    )


def _tensor(stored: Any, what: str) -> TensorArgument:
    return TensorArgument(name(record(stored, what).get("name"), what))


def _argument(stored: Any, what: str) -> Any:
    kind, _ = union(stored, what)
    if kind in NAMED:
        return _ARGUMENTS[kind](name(result_name(stored), what))
    if kind not in _PLAIN:
        fail(f"{what} is of an unsupported kind: {kind}")
    return ConstantArgument("", constant(stored))


def _input(stored: Any, what: str) -> InputSpec:
    kind, content = union(stored, what)
    spec = record(content, what)
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, _argument(spec.get("arg"), what), None)
    if kind == "constant_input":
        if union(spec.get("value"), what)[0] not in _PLAIN:
            fail("a constant input is not plain")
        argument = ConstantArgument(name(spec.get("name"), what), constant(spec["value"]))
        return InputSpec(InputKind.USER_INPUT, argument, None)
    if kind not in _STORED_INPUTS:
        fail(f"unsupported kind of input: {kind}")
    kind_, key = _STORED_INPUTS[kind]
    persistent = flag(spec.get("persistent"), "persistent") if kind == "buffer" else None
    return InputSpec(kind_, _tensor(spec.get("arg"), what), qualified_name(spec.get(key), key), persistent)


def _output(stored: Any, what: str) -> OutputSpec:
    kind, content = union(stored, what)
    spec = record(content, what)
    if kind == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, _argument(spec.get("arg"), what), None)
    if kind not in _WRITTEN_OUTPUTS:
        fail(f"unsupported kind of output: {kind}")
    kind_, key = _WRITTEN_OUTPUTS[kind]
    return OutputSpec(kind_, _tensor(spec.get("arg"), what), qualified_name(spec.get(key), key))


def calls_of(stored: Any) -> list[ModuleCallEntry]:
    """Returns the call of the whole program; those of its modules are not needed."""
    calls = entries(stored, "module_call_graph", record)
    if not calls or calls[0].get("fqn") != "":
        fail("module_call_graph does not start with the program")
    signature = record(calls[0].get("signature"), "signature of the program")
    names = signature.get("forward_arg_names")
    if names is not None:
        names = [name(each, "forward_arg_names") for each in items(names, "forward_arg_names")]
    in_spec = tree_of(text(signature.get("in_spec"), "in_spec"), "in_spec")
    out_spec = tree_of(text(signature.get("out_spec"), "out_spec"), "out_spec")
    _check_call(in_spec, names)
    call = ModuleCallSignature([], [], in_spec, out_spec, names or None)
    return [ModuleCallEntry("", call)]


def _check_call(in_spec: pytree.TreeSpec, names: list[str] | None) -> None:
    """Checks that inputs are positional and keyword arguments, from which torch generates code."""
    parts = [] if in_spec.is_leaf() else in_spec.children()
    if in_spec.type is not tuple or [part.type for part in parts] != [tuple, dict]:
        fail("in_spec is not the tree of positional and keyword arguments")
    keywords = [name(key, "keyword argument") for key in parts[1].context]
    count = parts[0].num_children + len(keywords)
    if names and (len(names) != count or len(set(names)) != count):
        fail("forward_arg_names does not match in_spec")
