# SPDX-License-Identifier: Apache-2.0
"""A decoder that keeps keys and values, step by step, in our executor and the reference model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.delegation.registry import BackendRegistry
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter
from tests.arm import reference_model

_STEPS = 6
_SIZE = 8


class Decoder(torch.nn.Module):
    """Attention to the tokens so far.

    Args:
        write: how a step writes to the cache: "index_copy", "index_put" or "where".
    """

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, write: str) -> None:
        super().__init__()
        self.write = write
        self.query, self.project, self.out = (torch.nn.Linear(16, size) for size in (16, 32, 16))
        self.register_buffer("keys", torch.zeros(1, 2, _SIZE, 8))
        self.register_buffer("values", torch.zeros(1, 2, _SIZE, 8))

    def _update(self, cache: torch.Tensor, new: torch.Tensor, position: torch.Tensor) -> None:
        if self.write == "index_copy":
            cache.index_copy_(2, position, new)
        elif self.write == "index_put":
            cache[:, :, position] = new
        else:
            here = torch.arange(_SIZE).view(-1, 1) == position
            cache.copy_(torch.where(here, new, cache))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Adds a token at a position, and returns its hidden state."""
        key, value = self.project(x).view(1, 1, 2, 16).transpose(1, 2).chunk(2, -1)
        self._update(self.keys, key, position)
        self._update(self.values, value, position)
        query = self.query(x).view(1, 1, 2, 8).transpose(1, 2)
        mask = (torch.arange(_SIZE) <= position).view(1, _SIZE)
        found = torch.nn.functional.scaled_dot_product_attention(query, self.keys, self.values, mask)
        hidden: torch.Tensor = self.out(found.transpose(1, 2).reshape(1, 1, 16))
        return hidden


@pytest.mark.parametrize("backends", [builtin_backends, reference_model.backends])
@pytest.mark.parametrize("write", ["index_copy", "index_put", "where"])
def test_calls_of_a_decoder(write: str, backends: Callable[[], BackendRegistry], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Decoder(write).eval()
    tokens = torch.randn(_STEPS, 1, 1, 16)
    exported = torch.export.export(model, (tokens[0], torch.tensor([0])))
    lowered = lower({"forward": exported}, "tosa", {"specification": "TOSA-1.0+FP"})
    assert len(lowered.reports["forward"].delegates) == 1
    with (tmp_path / "decoder.pte").open("wb") as file:
        write_program(lowered.emitted, file)
    program = read_program(tmp_path / "decoder.pte")
    run = Interpreter(program.method("forward"), backends(), named_data=program.named_bytes(), shared={}).run
    results = []
    for step in range(_STEPS):
        args = tokens[step], torch.tensor([step])
        with torch.no_grad():
            wanted = model(*args)
        (found,) = run([x.clone() for x in args])
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
        results.append(found)
    # a step depends on the previous ones
    model.keys.zero_()
    model.values.zero_()
    with torch.no_grad():
        alone = model(tokens[-1], torch.tensor([_STEPS - 1]))
    assert float((results[-1] - alone).abs().max()) > 0.01
