# SPDX-License-Identifier: Apache-2.0
"""Graphs of an archive as graphs of torch.fx."""

from __future__ import annotations

import keyword
import operator
from typing import Any, Final

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import _free_unbacked_symbols_with_path

from delegatec.frontend.pt2 import arguments
from delegatec.frontend.pt2.bodies import check_bodies
from delegatec.frontend.pt2.consistency import Calls
from delegatec.frontend.pt2.fields import (
    entries,
    fail,
    flag,
    items,
    name,
    record,
    text,
    union,
)
from delegatec.frontend.pt2.metadata import Metadata
from delegatec.frontend.pt2.targets import is_symbolic, target_of
from delegatec.frontend.pt2.values import Values, description_of

_AUTOCAST: Final = torch.ops.higher_order.wrap_with_autocast
# Nested calls of control flow.
DEEPEST: Final = 20
_FOR_SIZE: Final = torch.ops.aten.sym_constrain_range_for_size.default
_POSITIONAL: Final = 1
_LISTS: Final = frozenset(
    {"as_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools", "as_ints", "as_floats", "as_bools"}
)
_CONSTANT_INPUTS: Final = frozenset({"as_int", "as_float", "as_bool", "as_none", "as_string"})
# Attributes of a graph module that a body must not replace.
_RESERVED: Final = frozenset({*dir(_LazyGraphModule), "meta", "training", "graph"})


class GraphReader:
    """Reads one graph, and its bodies with separate readers.

    Args:
        values: creates the values of the program.
        calls: checks the calls of bodies; None in scopes that change results.
        depth: the number of calls around it.
    """

    def __init__(self, values: Values, calls: Calls | None, depth: int = 0) -> None:
        if depth > DEEPEST:
            fail("control flow is nested too deeply")
        self._values, self._calls, self._depth = values, calls, depth
        self._graph = Graph()
        self._module = torch.nn.Module()
        self._nodes: dict[str, Node] = {}
        self._stored: dict[str, Any] = {}
        self._metadata = Metadata()

    def read(self, stored: Any, constant_names: list[str] | None = None) -> GraphModule:
        """Returns the module of a graph.

        Args:
            stored: its JSON.
            constant_names: for the inputs of a whole program, their names if they are constants.
        """
        graph = record(stored, "graph")
        for group, create in (
            ("tensor_values", lambda value: self._values.tensor(description_of(value))),
            ("sym_int_values", self._values.symbolic_integer),
            ("sym_float_values", self._values.symbolic_float),
            ("sym_bool_values", self._values.symbolic_bool),
        ):
            for key, value in record(graph.get(group, {}), group).items():
                self._stored[key] = (create, value)
        if graph.get("custom_obj_values"):
            fail("custom objects are not supported")
        for index, each in enumerate(items(graph.get("inputs"), "inputs")):
            self._input(each, index, constant_names)
        for node in items(graph.get("nodes"), "nodes"):
            self._node(record(node, "node"))
        self._output(graph)
        self._bind_unbacked()
        check_bodies(self._graph, self._module)
        if self._calls is not None and self._depth:
            self._calls.check(self._graph)
        return _LazyGraphModule(self._module, self._graph)  # compiled if it is run

    def _define(self, key: str, node: Node) -> None:
        """Gives a node its name and value."""
        if key in self._nodes:
            fail(f"{key} is defined twice")
        if key not in self._stored:
            fail(f"{key} has no description")
        node.name = name(key, "name of a value")
        self._nodes[key] = node
        create, value = self._stored[key]
        node.meta["val"] = create(value)

    def _input(self, stored: Any, index: int, constant_names: list[str] | None) -> None:
        kind, _ = union(stored, "input")
        if kind in ("as_tensor", "as_sym_int"):
            key = arguments.result_name(stored)
            self._define(name(key, "input"), self._graph.placeholder(name(key, "input")))
        elif kind in _CONSTANT_INPUTS and constant_names is not None:
            written = constant_names[index] if index < len(constant_names) else ""
            key = name(written or f"arg{index}", "input")
            if key in self._nodes:
                fail(f"{key} is defined twice")
            self._nodes[key] = node = self._graph.placeholder(key)
            node.name = key
            node.meta["val"] = arguments.constant(stored)
        else:
            fail(f"unsupported kind of input: {kind}")

    def _node(self, stored: dict[str, Any]) -> None:
        target = target_of(text(stored.get("target"), "target"))
        outputs = items(stored.get("outputs"), "outputs")
        written = stored.get("name")
        if written is None and len(outputs) == 1:
            written = arguments.result_name(outputs[0])
        if written is not None:
            written = text(written, "name of a node")
        meta = self._metadata.read(record(stored.get("metadata"), "metadata"))
        inputs = entries(stored.get("inputs"), "inputs", record)
        single = stored.get("is_hop_single_tensor_return")
        if single is not None:
            flag(single, "is_hop_single_tensor_return")
        if isinstance(target, HigherOrderOperator):
            args, kwargs = self._unnamed(inputs, meta, None if target is _AUTOCAST else self._calls)
        elif is_symbolic(target):
            args, kwargs = tuple(arguments.argument(each.get("arg"), self._nodes) for each in inputs), {}
            if len(outputs) != 1 or arguments.result_name(outputs[0]) is None:
                fail(f"{stored['target']} must have one result")
        else:
            args, kwargs = self._named(target, inputs)
        node = self._graph.create_node("call_function", target, args, kwargs, written)
        self._results(node, outputs, meta, single is False and isinstance(target, HigherOrderOperator))
        node.meta.update(meta)
        node.meta.setdefault("nn_module_stack", {})
        self._constrain(node)

    def _named(
        self, target: OpOverload, inputs: list[dict[str, Any]]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of an operator in the order of its schema."""
        found: dict[str, tuple[Any, Any]] = {}
        for each in inputs:
            key = text(each.get("name"), "name of an argument")
            if key in found:
                fail(f"argument {key} of {target} is given twice")
            found[key] = (arguments.argument(each.get("arg"), self._nodes), each.get("kind"))
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in target._schema.arguments:
            if parameter.name not in found:
                if not parameter.has_default_value():
                    fail(f"argument {parameter.name} of {target} is missing")
                continue
            value, kind = found.pop(parameter.name)
            # The compiler finds operands by position.
            required = not parameter.has_default_value() and not parameter.kwarg_only
            if required or kind == _POSITIONAL or keyword.iskeyword(parameter.name):
                if kwargs:
                    fail(f"argument {parameter.name} of {target} follows keyword arguments")
                args.append(value)
            else:
                kwargs[parameter.name] = value
        if found:
            fail(f"{target} has no argument {next(iter(found))}")
        return tuple(args), kwargs

    def _unnamed(
        self, inputs: list[dict[str, Any]], meta: dict[str, Any], calls: Calls | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of a higher-order operator, which has no schema."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in inputs:
            kind, content = union(each.get("arg"), "argument")
            value = (
                self._body(record(content, "body"), meta, calls)
                if kind == "as_graph"
                else arguments.argument(each["arg"], self._nodes)
            )
            key = text(each.get("name"), "name of an argument")
            if each.get("kind") == _POSITIONAL or not key:
                args.append(value)
            else:
                kwargs[key] = value
        return tuple(args), kwargs

    def _body(self, stored: dict[str, Any], meta: dict[str, Any], calls: Calls | None) -> Node:
        key = name(stored.get("name"), "name of a body")
        if key in _RESERVED or key.startswith("__") or hasattr(self._module, key):
            fail(f"invalid name of a body: {key}")
        unbacked, self._values.unbacked = self._values.unbacked, set()
        self._module.register_module(
            key, GraphReader(self._values, calls, self._depth + 1).read(stored.get("graph"))
        )
        self._values.unbacked = unbacked
        node = self._graph.create_node("get_attr", key, name=key)
        node.meta.update(meta)
        return node

    def _results(self, node: Node, outputs: list[Any], meta: dict[str, Any], tuple_of_one: bool) -> None:
        if not outputs:
            return
        first = arguments.result_name(outputs[0])
        kind = union(outputs[0], "result")[0]
        if len(outputs) == 1 and kind == "as_none":
            node.meta["val"] = None
            node._rename(f"{self._graph._target_to_str(node.target)}_unused")
        elif len(outputs) == 1 and first is not None and not tuple_of_one:
            self._define(first, node)
        else:
            if len(outputs) == 1 and first is None:
                outputs = [{"as_tensor": each} for each in items(outputs[0].get("as_tensors"), "results")]
            node.meta["val"] = tuple(self._elements(node, outputs, meta))
            if node.name in self._nodes:
                fail(f"{node.name} is defined twice")
            self._nodes[node.name] = node

    def _elements(self, node: Node, outputs: list[Any], meta: dict[str, Any]) -> list[Any]:
        """Creates a node for each result of a call that has several."""
        found: list[Any] = []
        for index, each in enumerate(outputs):
            kind, content = union(each, "result")
            key = arguments.result_name(each)
            if key is None and kind != "as_none" and kind not in _LISTS:
                fail(f"unsupported kind of result: {kind}")
            element = self._graph.create_node(
                "call_function",
                operator.getitem,
                (node, index),
                name=key or ("as_none" if kind == "as_none" else None),
            )
            if key is not None:
                self._define(key, element)
            elif kind == "as_none":
                element.meta["val"] = None
            else:
                singular = kind.removesuffix("s")
                nested = [{singular: item} for item in items(content, "results")]
                element.meta["val"] = self._elements(element, nested, meta)
            element.meta.update(meta)
            found.append(element.meta["val"])
        return found

    def _output(self, graph: dict[str, Any]) -> None:
        results = []
        for each in items(graph.get("outputs"), "outputs"):
            kind = union(each, "output")[0]
            if kind not in arguments.NAMED and kind not in _CONSTANT_INPUTS:
                fail(f"unsupported kind of output: {kind}")
            results.append(arguments.argument(each, self._nodes))
        values = [each.meta["val"] if isinstance(each, Node) else each for each in results]
        if flag(graph.get("is_single_tensor_return", False), "is_single_tensor_return"):
            if len(results) != 1 or not isinstance(results[0], Node):
                fail("a body with a single result has several")
            self._graph.output(results[0]).meta["val"] = values[0]
        else:
            self._graph.output(tuple(results)).meta["val"] = tuple(values)

    def _bind_unbacked(self) -> None:
        """Records which node defines each symbol whose value is known only at run time."""
        values = self._values
        for node in self._graph.nodes:
            if not values.unbacked:
                return
            value = node.meta.get("val")
            if value is None:
                continue
            bindings = _free_unbacked_symbols_with_path(
                value, (), shape_env=values.shape_env, pending=values.unbacked, simplify=True
            )
            if bindings:
                node.meta["unbacked_bindings"] = bindings
        if values.unbacked:
            fail(f"no node defines {sorted(map(str, values.unbacked))[0]}")

    def _constrain(self, node: Node) -> None:
        """Repeats what torch derives from assertions."""
        operand = node.args[0] if node.args else None
        value = operand.meta.get("val") if isinstance(operand, Node) else None
        shape_env = self._values.shape_env
        if node.target is torch.ops.aten._assert_scalar.default and isinstance(value, torch.SymBool):
            shape_env.guard_or_defer_runtime_assert(value.node.expr, "", node)
        elif node.target is _FOR_SIZE and isinstance(value, torch.SymInt):
            shape_env._constrain_range_for_size(value.node.expr)
