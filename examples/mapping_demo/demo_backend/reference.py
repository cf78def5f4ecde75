# SPDX-License-Identifier: Apache-2.0
"""Runs a blob on the host as the device would, from the blob alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch

from delegatec.delegation import ReferenceExecutor
from demo_backend.blob import Blob, Instruction


class DemoExecutor(ReferenceExecutor):
    """Runs one blob."""

    def __init__(self, blob: Blob) -> None:
        self.num_inputs = blob.num_inputs
        self._blob = blob

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the instructions in order."""
        if len(inputs) != self.num_inputs:
            raise ValueError(f"got {len(inputs)} inputs; the blob has {self.num_inputs}")
        values = list(inputs)
        for instruction in self._blob.instructions:
            operands = [values[index] for index in instruction.integers("v")]
            operands += [self._blob.weights[index] for index in instruction.integers("w")]
            values.append(_RUN[instruction.operation](instruction, operands))
        return [values[output] for output in self._blob.outputs]


def _conv_relu(instruction: Instruction, operands: list[torch.Tensor]) -> torch.Tensor:
    *window, groups = instruction.integers("n")
    stride, padding, dilation = window[:2], window[2:4], window[4:]
    bias = operands[2] if len(operands) > 2 else None
    convolved = torch.conv2d(operands[0], operands[1], bias, stride, padding, dilation, groups)
    return torch.relu(convolved)


_RUN: Final[dict[str, Callable[[Instruction, list[torch.Tensor]], torch.Tensor]]] = {
    "conv_relu_op": _conv_relu,
    "sin_decomp_from_tan": lambda _, operands: torch.sin(operands[0]),
    "cos_decomp_from_tan": lambda _, operands: torch.cos(operands[0]),
    "div_decomp_from_tan": lambda _, operands: operands[0] / operands[1],
}
