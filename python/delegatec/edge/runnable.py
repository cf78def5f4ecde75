# SPDX-License-Identifier: Apache-2.0
"""Exported programs as modules that run in eager mode."""

from __future__ import annotations

import warnings

import torch
from torch.export import ExportedProgram


def runnable(exported: ExportedProgram, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    """Returns a module that runs an exported program with separate state, and without checks of the inputs.

    Args:
        exported: the program; not modified, nor its weights, which archives map read-only.
        state: name -> buffer or parameter of other methods of the model, which share them; receives those of
            this one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch.export's own modules
        module = exported.module(check_guards=False)
    copies: dict[int, torch.Tensor] = {}
    for name, buffer in list(module.named_buffers(remove_duplicate=False)):
        parent, _, attribute = name.rpartition(".")
        own = copies.setdefault(id(buffer), state.get(name, buffer.clone()))
        module.get_submodule(parent)._buffers[attribute] = state.setdefault(name, own)
    schemas = (getattr(node.target, "_schema", None) for node in module.graph.nodes)
    is_mutable = any(schema is not None and schema.is_mutable for schema in schemas)
    for name, parameter in list(module.named_parameters(remove_duplicate=False)):
        parent, _, attribute = name.rpartition(".")
        # Separate objects, so that the exported program keeps its values, which all methods share.
        own = state.setdefault(name, torch.nn.Parameter(parameter.data, requires_grad=False))
        if is_mutable:  # the program may write to it
            own.data = own.data.clone()
        module.get_submodule(parent).register_parameter(attribute, own)  # type: ignore[arg-type]
    return module
