# SPDX-License-Identifier: Apache-2.0
"""Arguments of the nodes of a graph: a table of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch._export.serde.serialize import (
    _SERIALIZE_TO_TORCH_LAYOUT,
    _SERIALIZE_TO_TORCH_MEMORY_FORMAT,
)
from torch.fx import Node

from delegatec.frontend.pt2.fields import (
    fail,
    flag,
    integer,
    items,
    number,
    record,
    text,
    union,
)
from delegatec.frontend.pt2.values import device_of, dtype_of

Nodes = Mapping[str, Node]
_LAYOUTS: Final = {int(code): layout for code, layout in _SERIALIZE_TO_TORCH_LAYOUT.items()}
_MEMORY_FORMATS: Final = {int(code): form for code, form in _SERIALIZE_TO_TORCH_MEMORY_FORMAT.items()}

# Kinds of results that are one node each.
NAMED: Final = {
    "as_tensor": "name",
    "as_sym_int": "as_name",
    "as_sym_float": "as_name",
    "as_sym_bool": "as_name",
}


def _reference(value: Any, nodes: Nodes) -> Node:
    return _node(record(value, "tensor").get("name"), nodes, (torch.Tensor,))


def _node(value: Any, nodes: Nodes, types: tuple[type, ...]) -> Node:
    """Returns the node of a name, whose value must be of one of these types."""
    found = nodes.get(value) if type(value) is str else None
    if found is None:
        fail(f"undefined value: {text(value, 'name')}")
    if not isinstance(found.meta.get("val"), types):
        fail(f"{value} is not a {types[0].__name__}")
    return found


def _optional(value: Any, nodes: Nodes) -> Node | None:
    kind, content = union(value, "optional tensor")
    if kind == "as_none":
        return None
    return _reference(content, nodes) if kind == "as_tensor" else fail("invalid optional tensor")


def _symbolic(kind: str, convert: Callable[[Any, str], Any], *types: type) -> Callable[[Any, Nodes], Any]:
    def read(value: Any, nodes: Nodes) -> Any:
        found, content = union(value, "symbolic argument")
        if found == "as_name":
            return _node(content, nodes, types)
        return convert(content, kind) if found == kind else fail("invalid symbolic argument")

    return read


def _complex(value: Any, nodes: Nodes) -> complex:
    parts = record(value, "complex number")
    return complex(number(parts.get("real"), "real part"), number(parts.get("imag"), "imaginary part"))


def _of(table: Mapping[int, Any], what: str) -> Callable[[Any, Nodes], Any]:
    def read(value: Any, nodes: Nodes) -> Any:
        return table[value] if type(value) is int and value in table else fail(f"unknown {what}")

    return read


def _plain(convert: Callable[[Any, str], Any], what: str) -> Callable[[Any, Nodes], Any]:
    return lambda value, nodes: convert(value, what)


def _each(read: Callable[[Any, Nodes], Any]) -> Callable[[Any, Nodes], Any]:
    return lambda value, nodes: [read(item, nodes) for item in items(value, "list")]


_INT, _SYM_INT = _plain(integer, "int"), _symbolic("as_int", integer, torch.SymInt, int)
_SYM_FLOAT, _SYM_BOOL = (
    _symbolic("as_float", number, torch.SymFloat, float),
    _symbolic("as_bool", flag, torch.SymBool, bool),
)
_FLOAT, _BOOL, _STRING = _plain(number, "float"), _plain(flag, "bool"), _plain(text, "string")

# Kind -> reader; bodies are read by the graph.
READERS: Final[dict[str, Callable[[Any, Nodes], Any]]] = {
    "as_tensor": _reference,
    "as_tensors": _each(_reference),
    "as_int": _INT,
    "as_ints": _each(_INT),
    "as_float": _FLOAT,
    "as_floats": _each(_FLOAT),
    "as_bool": _BOOL,
    "as_bools": _each(_BOOL),
    "as_string": _STRING,
    "as_strings": _each(_STRING),
    "as_none": lambda value, nodes: None,
    "as_complex": _complex,
    "as_sym_int": _SYM_INT,
    "as_sym_ints": _each(_SYM_INT),
    "as_sym_float": _SYM_FLOAT,
    "as_sym_floats": _each(_SYM_FLOAT),
    "as_sym_bool": _SYM_BOOL,
    "as_sym_bools": _each(_SYM_BOOL),
    "as_optional_tensor": _optional,
    "as_optional_tensors": _each(_optional),
    "as_nested_tensors": _each(_each(_reference)),
    "as_int_lists": lambda value, nodes: [tuple(each) for each in _each(_each(_INT))(value, nodes)],
    "as_float_lists": _each(_each(_FLOAT)),
    "as_scalar_type": lambda value, nodes: dtype_of(value),
    "as_device": lambda value, nodes: device_of(value),
    "as_layout": _of(_LAYOUTS, "layout"),
    "as_memory_format": _of(_MEMORY_FORMATS, "memory format"),
    "as_string_to_argument": lambda value, nodes: {
        key: argument(each, nodes) for key, each in record(value, "dictionary").items()
    },
}


def argument(value: Any, nodes: Nodes) -> Any:
    """Returns the value of an argument.

    Args:
        value: the stored argument.
        nodes: the nodes that it may refer to, by name.
    """
    kind, content = union(value, "argument")
    read = READERS.get(kind)
    return read(content, nodes) if read is not None else fail(f"unsupported kind of argument: {kind}")


def constant(value: Any) -> Any:
    """Returns an argument that refers to no node."""
    return argument(value, {})


def result_name(value: Any) -> str | None:
    """Returns the name of a result that is one node; None for other results."""
    kind, content = union(value, "result")
    if kind not in NAMED:
        return None
    return text(record(content, "result").get(NAMED[kind]), "name of a result")
