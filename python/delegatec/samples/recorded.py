# SPDX-License-Identifier: Apache-2.0
"""Golden samples: the results of the user's module for given inputs, before torch.export saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class RecordedCall:
    """One call of a module.

    Attributes:
        method: name of the program's method.
        name: how the inputs were made, such as "example" or "seed 1 (input 0: [4, 8])".
        inputs: the arguments, flattened like the program's inputs: tensors, scalars, strings and None.
        outputs: the leaves of the result with their paths, such as "['logits']"; "" for a single tensor.
        written: position of an input that the module wrote to -> its value after the call.
    """

    method: str
    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[tuple[str, Any], ...]
    written: Mapping[int, torch.Tensor] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes of its tensors."""
        values = (*self.inputs, *(value for _, value in self.outputs), *self.written.values())
        return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))


@dataclass(frozen=True)
class RecordedSamples:
    """Calls in a row of one instance of a model, so that each depends on the state that those before left.

    Attributes:
        calls: the calls of all methods, in order, from the model's initial state.
    """

    calls: tuple[RecordedCall, ...] = ()

    def of(self, method: str) -> tuple[RecordedCall, ...]:
        """Returns the calls of one method."""
        return tuple(call for call in self.calls if call.method == method)
