# SPDX-License-Identifier: Apache-2.0
"""Low-rank adapters of linear layers (LoRA), as weights that a program loads from a `.ptd`.

The weights are zeros in the program's own `.ptd`: the network computes what it does without them.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean

DOWN: Final = "lora_A"
"""The first matrix of an adapter, [rank, input features], as PEFT names it."""
UP: Final = "lora_B"
"""The second one, [output features, rank]."""


@contextmanager
def calls_marked(network: Any) -> Iterator[None]:
    """Marks linear layers that a network calls in the scope, for `add_adapters`.

    An adapter of another one, whose weight is read by the network itself, would have no effect.
    """
    hooks = [module.register_forward_pre_hook(_mark) for module in network.modules() if _is_linear(module)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _mark(module: Any, inputs: Any) -> None:
    module.delegatec_is_called = True


def add_adapters(network: Any, rank: int, modules: Collection[str]) -> tuple[str, ...]:
    """Adds an adapter to linear layers, in place.

    Args:
        network: the network, with weights in their stored forms, after `calls_marked`.
        rank: of the adapters; 0 for none.
        modules: names of layers, or the last parts of their names, such as "q_proj".

    Returns:
        The names of the adapters' weights.

    Raises:
        DelegatecError: DC136, one setting without the other; DC130, `rank` is negative, or a name is not that
            of a linear layer that the network calls.
    """
    if bool(rank) != bool(modules):
        text = f"adapter_rank = {rank} with adapter_modules = {sorted(modules)}"
        raise DelegatecError([Diagnostic("DC136", text, expected="both, or neither")])
    layers = {
        name: module for name, module in network.named_modules() if hasattr(module, "delegatec_is_called")
    }
    found = [name for name in layers if any(_is_named(name, each) for each in modules)]
    if problems := [*_problems(rank, modules, layers)]:
        raise DelegatecError(problems)
    for name in found:
        layer: Any = layers[name]
        inputs, outputs = (
            (layer.nx, layer.nf) if is_transposed(layer) else (layer.in_features, layer.out_features)
        )
        layer.register_buffer(DOWN, torch.zeros(rank, inputs))
        layer.register_buffer(UP, torch.zeros(outputs, rank))
        layer.__class__ = _adapted(type(layer))  # type: ignore[arg-type]
    return tuple(f"{name}.{weight}" for name in found for weight in (DOWN, UP))


def _problems(rank: int, modules: Collection[str], layers: Collection[str]) -> Iterator[Diagnostic]:
    if rank < 0:
        yield Diagnostic("DC130", f"adapter_rank cannot be {rank}", expected="1 or more, such as 16")
    parts = sorted({name.rpartition(".")[2] for name in layers})
    for each in modules:
        if not any(_is_named(name, each) for name in layers):
            text = f'adapter_modules has "{each}", which no linear layer is named that the network calls'
            yield Diagnostic("DC130", text, expected=", ".join(parts), help=did_you_mean(each, parts))


def _is_named(name: str, part: str) -> bool:
    return name == part or name.endswith(f".{part}")


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or is_transposed(module)


def is_transposed(module: nn.Module) -> bool:
    """Whether a module is a linear layer whose weight has input features first, as in GPT-2."""
    from transformers.pytorch_utils import Conv1D

    return isinstance(module, Conv1D)


@functools.cache
def _adapted(owner: type[nn.Module]) -> type[nn.Module]:
    return type(owner.__name__, (_Adapted, owner), {"__module__": owner.__module__})


class _Adapted(nn.Module):
    """A linear layer with an adapter."""

    def forward(self, x: Tensor) -> Tensor:
        """Adds the product with both matrices, in float32, to what the layer returns."""
        result: Tensor = super().forward(x)
        reduced = functional.linear(x, self.get_buffer(DOWN))
        return result + functional.linear(reduced, self.get_buffer(UP))
