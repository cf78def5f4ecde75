# SPDX-License-Identifier: Apache-2.0
"""A small model and its arguments, to compare with eager mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class Case:
    """One model and its arguments.

    Attributes:
        module: makes it, with the same weights each time.
        calls: arguments of each call, one after the other; export sees the first.
        kwargs: keyword arguments of all calls.
        dynamic_shapes: for torch.export.
    """

    module: Callable[[], nn.Module]
    calls: list[tuple[Any, ...]]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None


def noise(*sizes: int, seed: int = 0) -> Tensor:
    """Normally distributed values, the same at each run."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def of_module(make: Callable[[], nn.Module], *inputs: Any, **kwargs: Any) -> Case:
    """A module, called once."""
    return Case(make, [inputs], **kwargs)


def of_function(function: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Case:
    """A function, called once."""
    return Case(lambda: Function(function), [inputs], **kwargs)


def of_calls(make: Callable[[], nn.Module], *calls: tuple[Any, ...]) -> Case:
    """A module, called several times; its state lasts."""
    return Case(make, list(calls))
