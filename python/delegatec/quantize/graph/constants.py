# SPDX-License-Identifier: Apache-2.0
"""Constants of a graph of PT2E: evaluated before observation, and stored quantized after conversion."""

from __future__ import annotations

import operator as python
from collections.abc import Collection
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from delegatec.edge.quantization.operators import quantized

aten = torch.ops.aten

_QUANTIZE: Final = frozenset({quantized.quantize_per_tensor.default, quantized.quantize_per_channel.default})
# Larger results of small operands, such as an expanded weight, stay in the graph.
_MOST_ELEMENTS: Final = 1 << 20


def fold_constants(model: GraphModule, state: Collection[str]) -> None:
    """Evaluates the calls that do not depend on inputs, such as tables of positions, in place.

    Args:
        model: the graph of one method.
        state: names of the state that any method writes to.
    """
    values: dict[Node, Any] = {}
    written = written_constants(model, state)
    for node in list(model.graph.nodes):
        if node.op == "get_attr" and str(node.target) not in written:
            value = getattr_of(model, node)
            if isinstance(value, Tensor):
                values[node] = value
        elif _is_pure(node) and all(source in values for source in node.all_input_nodes):
            arguments = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*arguments[0], **arguments[1])
    for node, value in values.items():
        if node.op == "get_attr" or not isinstance(value, Tensor) or value.numel() > _MOST_ELEMENTS:
            continue
        if any(user not in values for user in node.users):
            name = unused_name(model, f"{node.name}_value")
            model.register_buffer(name, value.detach().contiguous().clone())
            with model.graph.inserting_before(node):
                constant = model.graph.get_attr(name)
            constant.meta = {"val": node.meta["val"]}
            node.replace_all_uses_with(constant)
    model.graph.eliminate_dead_code()
    model.recompile()


def written_constants(model: GraphModule, state: Collection[str]) -> set[str]:
    """Returns the names of state, and of all that a call of this graph writes to, maybe through a view."""
    owners: dict[Node, str] = {}
    written = set(state)
    for node in model.graph.nodes:
        if node.op == "get_attr":
            owners[node] = str(node.target)
        if not isinstance(node.target, OpOverload):
            continue
        schema = node.target._schema.arguments
        passed = [
            *zip(schema, node.args, strict=False),
            *((each, node.kwargs.get(each.name)) for each in schema),
        ]
        for argument, value in passed:
            if argument.alias_info is not None and isinstance(value, Node) and value in owners:
                owners[node] = owners[value]
                if argument.alias_info.is_write:
                    written.add(owners[value])
    return written


def store_quantized(model: GraphModule, state: Collection[str]) -> None:
    """Replaces quantizations of constants with their quantized values, named after the constants, in place.

    Args:
        model: a converted graph.
        state: names of the state that any method writes to.
    """
    written = written_constants(model, state)
    for node in list(model.graph.nodes):
        if node.target not in _QUANTIZE or node.args[0].op != "get_attr" or node.args[0].target in written:
            continue
        source = node.args[0]
        value = tensor_of(model, source)
        arguments = torch.fx.map_arg(node.args[1:], lambda part: tensor_of(model, part))
        with torch.no_grad():
            integers = node.target(value, *arguments)
        name = str(source.target)
        stored = store(model, node, unused_name(model, name + "_levels"), integers)
        for part, suffix in zip(node.args[1:3], ("scale", "zero_point"), strict=True):
            if isinstance(part, Node):
                _rename(model, part, unused_name(model, f"{name}_{suffix}"))
        node.replace_all_uses_with(stored)
        model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    delete_unused_modules(model)
    delete_unused_tensors(model)
    model.recompile()


def tensor_of(model: GraphModule, node: Node) -> Tensor:
    """Returns the tensor that a node loads."""
    value = getattr_of(model, node)
    assert isinstance(value, Tensor)
    return value


def getattr_of(model: GraphModule, node: Node) -> Any:
    """Returns the attribute that a node loads: a tensor, or the body of control flow."""
    owner, _, name = str(node.target).rpartition(".")
    return getattr(model.get_submodule(owner), name)


def unused_name(model: GraphModule, name: str) -> str:
    """Returns a name of an attribute that the model does not have yet."""
    owner, _, last = name.rpartition(".")
    module, counter, candidate = model.get_submodule(owner), 0, last
    while hasattr(module, candidate):
        counter += 1
        candidate = f"{last}_{counter}"
    return f"{owner}.{candidate}" if owner else candidate


def store(model: GraphModule, node: Node, name: str, value: Tensor) -> Node:
    """Stores a tensor as a buffer, and returns a node before another one that loads it."""
    owner, _, last = name.rpartition(".")
    model.get_submodule(owner).register_buffer(last, value)
    with model.graph.inserting_before(node):
        constant = model.graph.get_attr(name)
    constant.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
    constant.meta["val"] = value
    return constant


def _rename(model: GraphModule, node: Node, name: str) -> None:
    value = tensor_of(model, node)
    node.replace_all_uses_with(store(model, node, name, value))


def delete_unused_modules(model: GraphModule) -> None:
    """Deletes modules that no node names, but for those inside of one that a node names.

    `GraphModule.delete_all_unused_submodules` deletes the bodies that a body runs.
    """
    named = [str(node.target) for node in model.graph.nodes if node.op in ("call_module", "get_attr")]
    for name, _ in list(model.named_modules()):
        if name and not any(
            f"{each}.".startswith(f"{name}.") or name.startswith(f"{each}.") for each in named
        ):
            model.delete_submodule(name)


def delete_unused_tensors(model: GraphModule) -> None:
    """Removes the parameters and buffers that no node loads."""
    used = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    parameters = model.named_parameters(remove_duplicate=False)
    buffers = model.named_buffers(remove_duplicate=False)
    for name in {name for name, _ in (*parameters, *buffers)} - used:
        owner, _, last = name.rpartition(".")
        delattr(model.get_submodule(owner), last)


def _is_pure(node: Node) -> bool:
    if node.op != "call_function":
        return False
    if node.target is python.getitem:
        return True
    target = node.target
    return (
        isinstance(target, OpOverload)
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and target is not aten._assert_tensor_metadata.default
    )
