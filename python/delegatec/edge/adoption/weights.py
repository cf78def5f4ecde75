# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of an exported program, as plain tensors and operators that need no other library.

torch.export keeps a weight of a tensor subclass, such as those of torchao's `quantize_`, in the program. Its
calls become those that the subclass makes with the plain tensors inside it, and operators that libraries
register to dequantize weights become `edge/quantization/affine.py`, or the weight that they compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from delegatec.diagnostics import Diagnostic
from delegatec.edge.adoption.library_weights import adopt_library_weights
from delegatec.edge.adoption.subclass_weights import unwrap_subclass_weights
from delegatec.edge.adoption.torchao_operators import adopt_torchao_operators
from delegatec.edge.source import location_of

_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


def adopt_quantized_weights(program: ExportedProgram) -> None:
    """Replaces weights of tensor subclasses in a program, as far as their calls can be traced."""
    for tensors in (program.state_dict, program.constants):
        tensors.update({name: _plain(value) for name, value in tensors.items() if _has_only_a_type(value)})
    unwrap_subclass_weights(program)
    adopt_torchao_operators(program)
    adopt_library_weights(program)


def _has_only_a_type(value: Any) -> bool:
    """Whether a value is a tensor of a Python class with the memory of a plain one."""
    is_subclass = isinstance(value, torch.Tensor) and type(value) not in _PLAIN
    if not is_subclass or isinstance(value, FakeTensor) or is_traceable_wrapper_subclass(value):
        return False
    try:
        return bool(value.numel() == 0 or value.data_ptr() != 0)
    except RuntimeError:
        return False


def _plain(value: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        plain = value.detach().as_subclass(torch.Tensor)
        return torch.nn.Parameter(plain, requires_grad=False) if value.requires_grad else plain


def weight_problems(programs: Mapping[str, ExportedProgram]) -> list[Diagnostic]:
    """Adopts the quantized weights of programs, and returns the problems of weights that are not plain."""
    problems: list[Diagnostic] = []
    for program in programs.values():
        adopt_quantized_weights(program)
        problems += _of_program(program)
    return problems


def _of_program(program: ExportedProgram) -> Iterator[Diagnostic]:
    placeholders = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
        name = spec.target or ""
        value = program.state_dict.get(name, program.constants.get(name))
        if isinstance(value, FakeTensor):
            yield Diagnostic(
                "DC205",
                f'"{name}" of the exported program has no values: it was exported with fake tensors',
                expected="weights with values",
                help="export the module with its weights, outside of FakeTensorMode",
            )
        elif isinstance(value, torch.Tensor) and type(value) not in _PLAIN:
            yield _not_plain(name, value, node)


def _not_plain(name: str, value: torch.Tensor, node: Node) -> Diagnostic:
    user = next(iter(node.users), node)
    return Diagnostic(
        "DC205",
        f'"{name}" is a {type(value).__name__} tensor, whose use in {user.target} cannot be traced',
        location=location_of(user.meta.get("stack_trace")),
        expected="plain tensors, or a tensor subclass whose __torch_dispatch__ computes by operators on the "
        "tensors inside it",
        help="replace it by the plain tensor that it stands for before torch.export, as in "
        "layer.weight = torch.nn.Parameter(layer.weight.dequantize())",
    )
