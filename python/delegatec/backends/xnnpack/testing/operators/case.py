# SPDX-License-Identifier: Apache-2.0
"""A function that becomes one delegate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from delegatec.backends.common.testing import Call, Function


@dataclass(frozen=True)
class Case:
    """A function that becomes one delegate.

    Attributes:
        function: of tensors, or a module; returns a tensor or several.
        args: example inputs.
        operations: names of the blob's operations in fp32, in order; any if empty.
        sizes: for each input, the dynamic dimensions; none if empty.
        more: inputs of further runs.
        rtol: relative tolerance in fp32.
        half: absolute and relative tolerance in fp16; None if it does not run in fp16.
    """

    function: Function | torch.nn.Module
    args: tuple[torch.Tensor, ...]
    operations: str = ""
    sizes: Sequence[dict[int, Any]] = ()
    more: Sequence[tuple[torch.Tensor, ...]] = field(default=())
    rtol: float = 2e-5
    half: float | None = 4e-3

    def module(self) -> torch.nn.Module:
        """Returns the module to export."""
        return self.function if isinstance(self.function, torch.nn.Module) else Call(self.function)

    def dynamic_shapes(self) -> Any:
        """Returns the sizes for `torch.export`."""
        if not self.sizes:
            return None
        return tuple(self.sizes) if isinstance(self.function, torch.nn.Module) else (tuple(self.sizes),)
