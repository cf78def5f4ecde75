# SPDX-License-Identifier: Apache-2.0
"""State next to a cast to float32 by the author, which delegates of float16 keep in float32."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn

from delegatec.backends import builtin_backends
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter


class Counts(nn.Module):
    """Writes to its state by another name for it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.arange(12.0).view(6, 2) / 8)

    def forward(self, row: Tensor, x: Tensor) -> Tensor:
        total = self.total.float()
        total[row] += -2
        return x * 2 + self.total


@pytest.mark.parametrize("backend", ["mlx", "mps", "vulkan", "xnnpack"])
def test_state_next_to_a_cast(backend: str) -> None:
    module = Counts()
    calls = [(torch.tensor([row]), torch.full((6, 2), 0.5 * row)) for row in (5, 0, 5)]
    exported = torch.export.export(copy.deepcopy(module), calls[0])
    lowered = lower({"forward": exported}, backend, {"precision": "fp16"})
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    run = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run
    for call in calls:
        torch.testing.assert_close(run([*call])[0], module(*call), rtol=1e-2, atol=1e-2)
