# SPDX-License-Identifier: Apache-2.0
"""Decoders with long caches in the stock runtime: attention reads the filled rows of the cache itself."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec import Model
from delegatec.backends import builtin_backends
from delegatec.frontend.export import export
from delegatec.lowering import Program, lower
from delegatec.program import write_program
from delegatec.program.emitted import KernelCall
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter
from tests.oracle.oracle import mapped

_CONTEXT, _HEADS, _SHARED, _DEPTH, _WIDTH = 256, 4, 2, 16, 32
# The number of tokens in each call; the last ones fill the cache.
_CALLS: Final = (5, 1, 1, 40, 1, 64, 64, 64, 16)


class Layer(nn.Module):
    """Attention to a cache, which the layer updates.

    Args:
        dtype: of the cache.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.query = nn.Linear(_WIDTH, _HEADS * _DEPTH)
        self.rows = nn.Linear(_WIDTH, 2 * _SHARED * _DEPTH)
        self.out = nn.Linear(_HEADS * _DEPTH, _WIDTH)
        self.keys = nn.Buffer(torch.zeros(1, _SHARED, _CONTEXT, _DEPTH, dtype=dtype))
        self.values = nn.Buffer(torch.zeros(1, _SHARED, _CONTEXT, _DEPTH, dtype=dtype))

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """float32 [1, n, width], int64 [n] and bool [1, 1, n, context] to float32 [1, n, width]."""
        count = x.shape[1]
        query = self.query(x).view(1, count, _HEADS, _DEPTH).transpose(1, 2)
        rows = self.rows(x).view(1, count, 2 * _SHARED, _DEPTH).transpose(1, 2).to(self.keys.dtype)
        self.keys[:, :, positions] = rows[:, :_SHARED]
        self.values[:, :, positions] = rows[:, _SHARED:]
        keys, values = self.keys.to(x.dtype), self.values.to(x.dtype)
        result = f.scaled_dot_product_attention(query, keys, values, mask, enable_gqa=True)
        joined: Tensor = self.out(result.transpose(1, 2).reshape(1, count, _HEADS * _DEPTH))
        return x + joined


class Decoder(nn.Module):
    """Two layers, as a runner of language models calls them."""

    def __init__(self, dtype: torch.dtype, window: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.window = window
        self.layers = nn.ModuleList(Layer(dtype) for _ in range(2))

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """float32 [1, n, width] and int64 [1], the position of the first row, to float32 [1, n, width]."""
        positions, rows = start + torch.arange(x.shape[1]), torch.arange(_CONTEXT)[None]
        mask = rows <= positions[:, None]
        if self.window:
            mask = mask & (rows > positions[:, None] - self.window)
        for layer in self.layers:
            x = layer(x, positions, mask[None, None])
        return x


def _lowered(decoder: Decoder, counts: Sequence[int]) -> Program:
    example = torch.zeros(1, max(counts), _WIDTH), torch.tensor([3])
    is_dynamic = len({*counts}) > 1
    shapes = ({1: Dim("n", min=1, max=max(counts))}, None) if is_dynamic else None
    return lower(export(Model(decoder, example, dynamic_shapes=shapes), samples=0), "xnnpack")


@pytest.mark.parametrize("window", [0, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("counts", [_CALLS, (1,) * 6], ids=["chunks", "steps"])
def test_a_decoder(counts: Sequence[int], dtype: torch.dtype, window: int) -> None:
    decoder = Decoder(dtype, window).eval()
    lowered = _lowered(decoder, counts)
    (report,) = lowered.reports.values()
    assert len(report.delegates) == 3, "cut where a layer writes its rows"
    called = _operators(lowered)
    assert called.count("aten::index_put_") == 4 and called.count("aten::empty") == 8
    assert not {"aten::select_copy", "aten::copy_"}.intersection(called)
    assert called.count("aten::slice_copy") == 1, "of the indices in the mask"
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    runtime = mapped(file.getvalue())
    program = parse_program(file.getvalue())
    reference = Interpreter(
        program.method("forward"), builtin_backends(), named_data=program.named_bytes(), shared={}
    )
    generator, start = torch.Generator().manual_seed(1), 0
    for count in counts:
        inputs = torch.randn(1, count, _WIDTH, generator=generator), torch.tensor([start])
        with torch.no_grad():
            wanted = decoder(*inputs)
        for found in (runtime.run(inputs), reference.run([*inputs])):
            torch.testing.assert_close(found[0], wanted, rtol=1e-4, atol=2e-5)
        start += count


def _operators(lowered: Program) -> list[str]:
    (method,) = lowered.emitted.methods
    return [
        method.operators[each.operator][0] for each in method.instructions if isinstance(each, KernelCall)
    ]


class Split(nn.Module):
    """Splits the rows of a buffer, whose number is read from an input."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Buffer(torch.randn(64, 8))

    def forward(self, count: Tensor) -> Tensor:
        """int64 [] to float32 [2, count / 2, 2, 4]."""
        half = count.item()
        torch._check(half >= 1)
        torch._check(half <= 32)
        part = self.rows[: 2 * half].sigmoid()  # type: ignore[misc]
        return torch.tanh(part.view(2, half, 2, 4)) * 2


def test_sizes_that_depend_on_data() -> None:
    module = Split()
    lowered = lower(export(Model(module, (torch.tensor(3),)), samples=0), "xnnpack")
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    runtime = mapped(file.getvalue())
    for count in (1, 3, 32):
        (found,) = runtime.run([torch.tensor(count)])
        torch.testing.assert_close(found, module(torch.tensor(count)), rtol=1e-5, atol=1e-6)
