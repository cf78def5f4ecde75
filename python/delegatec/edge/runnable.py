# SPDX-License-Identifier: Apache-2.0
"""Exported programs as modules that run in eager mode."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping

import torch
from torch import fx
from torch.export import ExportedProgram


def runnable(exported: ExportedProgram, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    """Returns a module that runs an exported program with separate state, and without checks of the inputs.

    Args:
        exported: the program; not modified, nor its weights, which archives map read-only.
        state: name -> buffer or parameter of other methods of the model, which share them; receives those of
            this one.
    """
    renamed = _renamed(exported)
    original = {new: name for name, new in renamed.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch.export's own modules
        module = _with_names(exported, renamed).module(check_guards=False)
    # Separate objects, so that the exported program keeps its values, which all methods share.
    own: dict[int, torch.Tensor] = {}
    for name, buffer in list(module.named_buffers(remove_duplicate=False)):
        parent, _, attribute = name.rpartition(".")
        key = original.get(name, name)
        found = own.setdefault(id(buffer), state.get(key, buffer.detach()))
        module.get_submodule(parent)._buffers[attribute] = state.setdefault(key, found)
    for name, parameter in list(module.named_parameters(remove_duplicate=False)):
        parent, _, attribute = name.rpartition(".")
        shared = state.setdefault(
            original.get(name, name), torch.nn.Parameter(parameter.data, requires_grad=False)
        )
        module.get_submodule(parent).register_parameter(attribute, shared)  # type: ignore[arg-type]
    written = {original.get(name, name) for name in _written(module.graph)}
    for tensor in {id(state[name]): state[name] for name in written if name in state}.values():
        tensor.data = tensor.data.clone()
    return module


def _renamed(exported: ExportedProgram) -> dict[str, str]:
    """Returns other names for weights that torch's module cannot have: it has a property `graph`, for one."""
    taken = fx.GraphModule(torch.nn.Module(), fx.Graph())
    names = {*exported.state_dict, *exported.constants}
    renamed = {}
    for name in names:
        first, _, rest = name.partition(".")
        if hasattr(taken, first):
            while hasattr(taken, first) or any(each.partition(".")[0] == first for each in names):
                first += "_"
            renamed[name] = f"{first}.{rest}" if rest else first
    return renamed


def _with_names(exported: ExportedProgram, renamed: Mapping[str, str]) -> ExportedProgram:
    """Returns a program with other names of weights; the same one if there are none."""
    if not renamed:
        return exported
    signature = copy.deepcopy(exported.graph_signature)
    for spec in (*signature.input_specs, *signature.output_specs):
        spec.target = renamed.get(spec.target or "", spec.target)
    state, constants = (
        {renamed.get(name, name): value for name, value in each.items()}
        for each in (exported.state_dict, exported.constants)
    )
    return exported._update(exported.graph_module, signature, state_dict=state, constants=constants)


def _written(graph: fx.Graph) -> set[str]:
    """Returns the names of the attributes that calls may write to: those that a written value depends on."""
    left = [value for node in graph.nodes if node.op == "call_function" for value in _operands_written(node)]
    visited: set[fx.Node] = set()
    while left:
        node = left.pop()
        if node not in visited:
            visited.add(node)
            left += node.all_input_nodes
    return {str(node.target) for node in visited if node.op == "get_attr"}


def _operands_written(node: fx.Node) -> Iterator[fx.Node]:
    """Yields the values that a call may write to."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            yield from node.all_input_nodes
        return
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            found: list[fx.Node] = []
            fx.map_arg(value, found.append)
            yield from found
