# SPDX-License-Identifier: Apache-2.0
"""Checks of modules before torch.export runs them, for causes that its own errors do not name."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from delegatec.diagnostics import Diagnostic
from delegatec.frontend.model import Model
from delegatec.frontend.quantized_modules import quantized_problems

# torch.export takes a time, and a file a size, that grow with the square of the depth.
_DEEPEST: Final = 400
# The C stack of 8 MiB allows for more than twice as many calls.
_RECURSION: Final = 8000


def module_problems(model: Model) -> list[Diagnostic]:
    """Returns a problem for each submodule or weight that cannot be exported."""
    return list(_nested(model)) or [*_scripted(model), *(list(quantized_problems(model)) or _weights(model))]


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Raises Python's limit on recursion: torch.export has several calls on the stack for each module."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _nested(model: Model) -> Iterator[Diagnostic]:
    depth, level, seen = 0, [model.module], {model.module}
    while level and depth <= _DEEPEST:
        depth += 1
        children = (child for module in level for child in module._modules.values() if child is not None)
        level = [child for child in dict.fromkeys(children) if child not in seen]
        seen.update(level)
    if level:
        yield Diagnostic(
            "DC111",
            f"modules are nested more than {_DEEPEST} deep",
            location=model.location,
            expected="a nesting that torch.export can trace in reasonable time",
            help="call the modules one after the other, as in nn.Sequential, instead of each inside the next",
        )


def _scripted(model: Model) -> Iterator[Diagnostic]:
    inside: tuple[str, ...] = ()
    for name, module in model.module.named_modules():
        if isinstance(module, torch.jit.ScriptModule) and not (inside and name.startswith(inside)):
            inside = (*inside, f"{name}." if name else "")
            yield Diagnostic(
                "DC119",
                f"{_module(name)} is a TorchScript module, which torch.export cannot trace",
                location=model.location,
                expected="modules written in Python",
                help="create the original torch.nn.Module, and load the state_dict() of the TorchScript one",
            )


def _weights(model: Model) -> Iterator[Diagnostic]:
    named = (*model.module.named_parameters(), *model.module.named_buffers())
    for name, weight in named:
        if isinstance(weight, UninitializedTensorMixin):
            yield Diagnostic(
                "DC119",
                f'"{name}" of the module is not initialized: a lazy module has not seen an input yet',
                location=model.location,
                expected="weights with shapes and values",
                help="call the module once before creating the Model, then load its weights",
            )
        elif is_traceable_wrapper_subclass(weight):
            continue  # Export replaces it by the tensors inside.
        elif problem := not_storable(name, weight, model):
            yield problem


def is_computed_by_transform(value: object) -> bool:
    """Whether a constant is a tensor inside of a transform, such as that of torch.func.grad."""
    return isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value)


def not_storable(name: str, value: object, model: Model) -> Diagnostic | None:
    """Returns why an exported program cannot store a weight or constant of the module."""
    plain = isinstance(value, torch.Tensor) and type(value.data) is torch.Tensor
    if is_computed_by_transform(value):
        return Diagnostic(
            "DC119",
            f'"{name}" is a constant that torch.func computes in the module',
            location=model.location,
            expected="plain strided tensors on cpu",
            help="compute it in __init__, and register it as a buffer",
        )
    if isinstance(value, torch.Tensor) and plain:
        if value.device.type == "cpu" and value.layout is torch.strided:
            return None
        layout = str(value.layout).removeprefix("torch.")
        kind = f"a tensor on {value.device.type} with layout {layout}"
        help = "load the weights on cpu, as dense tensors; a tensor on meta has no data"
    else:
        kind = f"of type {type(value).__name__}"
        help = "load the weights as plain tensors"
        if isinstance(value, torch.Tensor):
            help = "load the weights as plain tensors; of a quantized one, weight.dequantize() is one"
        if isinstance(value, torch.Generator):
            help = "create random constants in __init__, and register them as buffers"
    return Diagnostic(
        code="DC119",
        message=f'"{name}" of the module is {kind}',
        location=model.location,
        expected="plain strided tensors on cpu",
        help=help,
    )


def _module(name: str) -> str:
    return f'"{name}" of the module' if name else "the module"
