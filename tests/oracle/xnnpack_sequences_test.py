# SPDX-License-Identifier: Apache-2.0
"""Models of token ids with sizes that vary, for XNNPACK in the stock runtime."""

from __future__ import annotations

import io
import math
from typing import Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as f

from delegatec.backends.common.testing import Call
from delegatec.delegation.partitioning.rules import PartitionRules
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import mapped
from tests.oracle.xnnpack import floats, run_in_runtime

_LONGEST: Final = 24


class Encoder(nn.Module):
    """Attention over embedded tokens: only the shape of the ids is known to the delegate."""

    def __init__(self, is_bool: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.is_bool = is_bool
        self.embedding, self.layer, self.last = nn.Embedding(50, 16), nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        batch, length = ids.shape
        parts = self.layer(self.embedding(ids)).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        kept = (mask > 0)[:, None, None]
        limit = kept if self.is_bool else torch.where(kept, 0.0, float("-inf"))
        mixed = f.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=limit)
        return self.last(mixed.transpose(1, 2).reshape(ids.shape[0], ids.shape[1], 16))


def _call(length: int, *, seed: int, masked: int = 0) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, 50, (1, length), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(1, length)
    mask[:, length - masked :] = 0
    return ids, mask


@pytest.mark.parametrize("is_bool", [True, False])
def test_masked_attention_of_a_length_that_varies(is_bool: bool) -> None:
    """The length was that of the example: the runtime refused longer ones. Rows may be masked as a whole."""
    length = torch.export.Dim("length", min=2, max=_LONGEST)
    calls = [_call(9, seed=0), _call(20, seed=1, masked=6), _call(3, seed=2, masked=3)]
    report = run_in_runtime(Encoder(is_bool), calls, ({1: length}, {1: length}))
    left = {each.operator for each in report.rejections}
    assert len(report.delegates) == 1
    assert "aten.scaled_dot_product_attention.default" not in left


def test_an_encoder_of_batches_and_lengths_that_vary() -> None:
    """Views that split heads were outside: three delegates for this layer."""
    batch = torch.export.Dim("batch", min=1, max=5)
    length = torch.export.Dim("length", min=2, max=_LONGEST)
    calls = []
    for index, (count, rows) in enumerate([(3, 9), (5, _LONGEST), (1, 2)]):
        ids, mask = zip(
            *(_call(rows, seed=10 * index + each, masked=each % 2) for each in range(count)), strict=True
        )
        calls.append((torch.cat(ids), torch.cat(mask)))
    report = run_in_runtime(Encoder(), calls, ({0: batch, 1: length}, {0: batch, 1: length}))
    assert len(report.delegates) == 1
    assert {each.operator for each in report.rejections} == {"aten.embedding.default"}


class Buckets(nn.Module):
    """Attention with a bias for each bucket of relative positions, as in T5: far positions share buckets."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.layer, self.bias = nn.Embedding(50, 16), nn.Linear(16, 48), nn.Embedding(16, 2)

    def _bias(self, length: int) -> Tensor:
        positions = torch.arange(length)
        distance = positions[None, :] - positions[:, None]
        far, distance = (distance > 0) * 8, distance.abs()
        bucket = 4 + (torch.log(distance.float() / 4) / 2 * 4).to(torch.long)
        bucket = far + torch.where(distance < 4, distance, bucket.clamp(max=7))
        bias: Tensor = self.bias(bucket)
        return bias.permute(2, 0, 1)[None]

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        batch, length = ids.shape
        parts = self.layer(self.embedding(ids)).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        shift = self._bias(length) + (1 - mask)[:, None, None] * -1e4
        mixed = f.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=shift)
        return mixed.transpose(1, 2).flatten(2)


def test_buckets_of_relative_positions_do_not_separate_an_encoder() -> None:
    """Two delegates, the first of which also computed logarithms of distances."""
    batch = torch.export.Dim("batch", min=1, max=5)
    length = torch.export.Dim("length", min=2, max=_LONGEST)
    calls = [
        (ids.expand(count, -1), mask.expand(count, -1))
        for count, (ids, mask) in (
            (3, _call(9, seed=0, masked=2)),
            (5, _call(_LONGEST, seed=1)),
            (1, _call(2, seed=2)),
        )
    ]
    report = run_in_runtime(Buckets(), calls, ({0: batch, 1: length}, {0: batch, 1: length}))
    assert len(report.delegates) == 1
    assert {each.operator for each in report.rejections if each.rule == "boundary"} == {
        "aten.div.Scalar",
        "aten.log.default",
        "aten.mul.Scalar",
    }


def test_functions_of_integers_are_computed_in_a_delegate_if_nothing_follows() -> None:
    def function(x: Tensor) -> Tensor:
        return (x.float().exp() * 3).to(torch.int64)

    report = run_in_runtime(Call(function), [(torch.arange(-4, 9),)])
    assert len(report.delegates) == 1


class Products(nn.Module):
    """Attention in products of matrices, as models have it that do not call torch's attention."""

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = x.view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = (query @ key.mT / 2).softmax(-1) @ value
        return mixed.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("minimum", [1, 1000])
def test_products_of_batches_that_vary(minimum: int) -> None:
    """Five delegates. A product that is not delegated has no kernel in this form."""
    sizes = {0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=2, max=9)}
    exported = torch.export.export(Products(), (floats(3, 5, 24),), dynamic_shapes=(sizes,))
    lowered = lower({"forward": exported}, "xnnpack", rules=PartitionRules(minimum_nodes=minimum))
    assert len(lowered.reports["forward"].delegates) == (minimum == 1)
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = mapped(file.getvalue())
    for shape in ((3, 5), (8, 9), (1, 2)):
        x = floats(*shape, 24)
        torch.testing.assert_close(program.run([x])[0], Products()(x), rtol=2e-5, atol=2e-6)


class Sized(nn.Module):
    """Reads nothing of an input but its sizes, inside of a delegate."""

    def forward(self, ids: Tensor, x: Tensor) -> Tensor:
        return (x * 2).view(ids.shape[0], ids.shape[1], 3).tanh()


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float64, torch.bool])
def test_only_the_sizes_of_an_input_are_read(dtype: torch.dtype) -> None:
    """Lowering ended with a KeyError."""
    batch = torch.export.Dim("batch", min=1, max=8)
    calls = [(torch.ones(size, 4, dtype=dtype), floats(size * 4, 3)) for size in (3, 8, 1)]
    report = run_in_runtime(Sized(), calls, ({0: batch}, {0: 4 * batch}))
    assert (len(report.delegates), report.rejections) == (1, [])


class Chosen(nn.Module):
    """Chooses by a comparison with a size."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(torch.arange(x.shape[0]) + 1 < x.shape[0], x, x * 2).tanh()


def test_a_condition_of_sizes() -> None:
    """The search for tests for NaN read the dtype of a size."""
    size = torch.export.Dim("size", min=2, max=8)
    run_in_runtime(Chosen(), [(floats(5),), (floats(8),)], ({0: size},))


class Loop(nn.Module):
    """Doubles the values until their sum exceeds a limit, at most nine times."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = while_loop(
            lambda i, x: (i < 9) & (x.abs().sum() < 100),
            lambda i, x: (i + 1, x * 2),
            (torch.zeros((), dtype=torch.int64), x.tanh()),
        )[1]
        return result


def test_a_loop_ends_if_its_condition_follows_from_nan() -> None:
    x = floats(5)
    run_in_runtime(Loop(), [(x,), (x.where(x > x.min(), math.nan),)])
