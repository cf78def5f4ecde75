# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings, in the reference executor, compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.backends.vulkan.fusion.rotary import fuse_rotary
from delegatec.backends.vulkan.testing import calls, run_case
from delegatec.backends.vulkan.testing.grid import Case, floats, over_settings
from delegatec.edge import print_program
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.testing import edge
from delegatec.edge.verifier import verify

ROTARY = "apply_rotary_emb_hf"
ROWS = 5
FREQUENCIES = floats(8).abs() / 4
Rotation = Callable[[Tensor, Tensor, Tensor], Tensor]


def angles(rows: int = ROWS, half: int = 8) -> Tensor:
    """Returns the angles of positions, twice a row."""
    turns = torch.arange(3.0, 3 + rows)[:, None] * FREQUENCIES[:half]
    return torch.cat([turns, turns], -1)


TABLES = (angles().cos()[None, None], angles().sin()[None, None])
UNEQUAL = (floats(1, 1, ROWS, 16), floats(1, 1, ROWS, 16, seed=1))


def turned(x: Tensor) -> Tensor:
    """Returns the second half of rows, negated, and the first half."""
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Returns rotated rows; elements beyond the tables pass through."""
    size = cosines.shape[-1]
    part, rest = x[..., :size], x[..., size:]
    part = part * cosines + turned(part) * sines
    return torch.cat([part, rest], -1) if rest.shape[-1] else part


def heads(x: Tensor, depth: int) -> Tensor:
    """Returns rows of heads of a depth: [batch, heads, rows, depth]."""
    return x.view(*x.shape[:2], -1, depth).transpose(1, 2)


def both(tables: Sequence[Tensor] = TABLES, depth: int = 16, rotate: Rotation = rotated) -> Any:
    """Returns a function that rotates queries and keys."""

    def function(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return rotate(heads(q, depth), *tables), rotate(heads(k, depth), *tables)

    return function


def step(q: Tensor, k: Tensor, position: Tensor) -> tuple[Tensor, ...]:
    """Rotates by the angles of a position, as language models do."""
    turns = position.view(-1, 1).to(torch.float32) * FREQUENCIES
    turns = torch.cat([turns, turns], -1)[None]
    cosines, sines = ((turns.cos() * 0.5)[:, None], (turns.sin() * 0.5)[:, None])
    return rotated(heads(q, 16), cosines, sines), rotated(heads(k, 16), cosines, sines)


def two_layers(q: Tensor, k: Tensor) -> Tensor:
    """Rotates twice by the same tables."""
    for _ in range(2):
        q, k = (rotated(heads(x, 16), *TABLES) for x in (q, k))
        q, k = (x.transpose(1, 2).flatten(2).tanh() for x in (q, k))
    return torch.cat([q, k], -1)


def used_at_once(q: Tensor, k: Tensor) -> Tensor:
    """Uses the rotated queries before the keys are rotated."""
    found = rotated(heads(q, 16), *TABLES).exp()
    return found.sum(1) + rotated(heads(k, 16), *TABLES).sum(1)


def normed(q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    """Normalizes heads after the permutation."""
    scale = torch.ones(16)
    parts = (torch.nn.functional.rms_norm(heads(x, 16), (16,), scale, 1e-6) for x in (q, k))
    return tuple(rotated(x, *TABLES) for x in parts)


def joined(x: Tensor) -> tuple[Tensor, ...]:
    """Rotates parts of one projection, and the first half of each part."""
    parts = torch.split(heads(x, 72), 24, -1)
    tables = [table[..., :8] for table in (angles(half=4).cos(), angles(half=4).sin())]
    return (*(rotated(part, *tables) for part in parts[:2]), parts[2])


def one_after_another(q: Tensor) -> Tensor:
    """Rotates a tensor that is already rotated."""
    return rotated(rotated(heads(q, 16), *TABLES).exp(), *TABLES)


def other_tables(q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    """Rotates keys by other angles."""
    cosines, sines = TABLES
    return rotated(heads(q, 16), cosines, sines), rotated(heads(k, 16), sines, cosines)


def backwards(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotates in the other direction."""
    return x * cosines - turned(x) * sines


def swapped(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Exchanges the halves without a change of sign."""
    half = x.shape[-1] // 2
    return x * cosines + torch.cat([x[..., half:], x[..., :half]], -1) * sines


def operands(queries: int = 4, keys: int = 2, depth: int = 16, rows: int = ROWS) -> tuple[Tensor, ...]:
    """Returns the projections of queries and keys."""
    return floats(1, rows, queries * depth), floats(1, rows, keys * depth, seed=1)


NARROW = tuple(table[..., :8] for table in (angles(half=4).cos(), angles(half=4).sin()))
POSITION = torch.tensor([2])

FUSED: dict[str, Case] = {
    "constants": (both(), operands(), ""),
    "as many heads": (both(), operands(3, 3), ""),
    "more keys": (both(), operands(2, 4), ""),
    "a head": (both(), operands(1, 1), ""),
    "a part of each row": (both(NARROW, 12), operands(depth=12), ""),
    "a step": (step, (*operands(rows=1), POSITION), ""),
    "rows by positions": (step, (*operands(), torch.arange(2, 2 + ROWS)), ""),
    "used at once": (used_at_once, operands(4, 4), ""),
    "normed": (normed, operands(), ""),
    "one projection": (joined, (floats(1, ROWS, 2 * 72),), ""),
    "heads last": (
        lambda q, k: tuple(
            rotated(x.view(1, ROWS, -1, 16), *(table.transpose(1, 2) for table in TABLES)) for x in (q, k)
        ),
        operands(),
        "",
    ),
    "products in another order": (
        both(rotate=lambda x, cosines, sines: sines * turned(x) + cosines * x),
        operands(),
        "",
    ),
}
OTHERS: dict[str, Case] = {
    "a batch": (both(), tuple(x.expand(2, -1, -1) + floats(2, 1, 1) for x in operands()), ""),
    "unequal halves": (both(UNEQUAL), operands(), ""),
    "rows of half texels": (
        both([table[..., :4] for table in (angles(half=2).cos(), angles(half=2).sin())], 4),
        operands(depth=4),
        "",
    ),
    "depth that is not of texels": (both(NARROW, 10), operands(depth=10), ""),
    "queries alone": (lambda q: rotated(heads(q, 16), *TABLES), operands()[:1], ""),
    "one after another": (one_after_another, operands()[:1], ""),
    "other tables": (other_tables, operands(), ""),
    "a table a head": (
        both([table.expand(1, 2, -1, -1) * torch.tensor([1.0, 2.0]).view(1, 2, 1, 1) for table in TABLES]),
        operands(2, 2),
        "",
    ),
    "one row of angles": (both([table[:, :, :1] for table in TABLES]), operands(), ""),
    "one position at several": (both(), operands(rows=1), ""),
    "backwards": (both(rotate=backwards), operands(), ""),
    "without a change of sign": (both(rotate=swapped), operands(), ""),
    "tables as inputs": (
        lambda q, k, cosines, sines: both((cosines, sines))(q, k),
        (*operands(), *TABLES),
        "",
    ),
}
PRINTED = """
forward(%args_0: f32[1, 5, 48], %args_1: f32[1, 5, 24]):
@lifted_tensor_1: f32[5, 8]
@lifted_tensor_0: f32[5, 8]
aten.view.default(%args_0, [1, 5, 4, 12])
aten.view.default(%args_1, [1, 5, 2, 12])
delegatec_vulkan.apply_rotary_emb_hf.default(%4, %5, @lifted_tensor_0, @lifted_tensor_1, 0)
getitem(%6, 0)
aten.permute.default(%7, [0, 2, 1, 3])
getitem(%6, 1)
aten.permute.default(%9, [0, 2, 1, 3])
return [%8, %10]
"""


@over_settings(FUSED)
def test_fused(case: Case, options: dict[str, str]) -> None:
    assert calls(run_case(case[0], case[1], **options)).count(ROTARY) == 1


@over_settings(OTHERS)
def test_others(case: Case, options: dict[str, str]) -> None:
    """They are computed as written."""
    assert ROTARY not in calls(run_case(case[0], case[1], **options))


@over_settings({"two layers": (two_layers, operands(), "")})
def test_layers(case: Case, options: dict[str, str]) -> None:
    assert calls(run_case(case[0], case[1], **options)).count(ROTARY) == 2


def test_layers_share_tables() -> None:
    """Views of the cosines and the sines."""

    def layers(q: Tensor, k: Tensor, position: Tensor) -> Tensor:
        for _ in range(2):
            q, k = (x.transpose(1, 2).flatten(2).tanh() for x in step(q, k, position))
        return torch.cat([q, k], -1)

    found = edge(layers, *operands(), torch.arange(ROWS), passes=SIMPLIFY)
    assert fuse_rotary(found)
    rotations = [node for node in found.graph.nodes if ROTARY in str(node.target)]
    assert [node.args[2:4] for node in rotations] == [rotations[0].args[2:4]] * 2


def test_printed() -> None:
    found = edge(both(NARROW, 12), *operands(depth=12), passes=SIMPLIFY)
    assert fuse_rotary(found)
    verify(found)
    lines = [line.partition("  #")[0].split(" = ")[-1].strip() for line in print_program(found).splitlines()]
    assert lines == PRINTED.strip().splitlines()


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_unchanged(case: Case) -> None:
    found = edge(case[0], *case[1], passes=SIMPLIFY)
    before = print_program(found)
    assert not fuse_rotary(found)
    assert print_program(found) == before


def test_a_product_with_a_size_is_no_rotation() -> None:
    def scaled(x: Tensor, table: Tensor) -> Tensor:
        return x * table.shape[0] + turned(x) * 0.5

    x, rows = torch.ones(1, 3, 2, 8), torch.export.Dim("rows", min=2, max=5)
    assert not fuse_rotary(edge(scaled, x, x[0], passes=SIMPLIFY, dynamic_shapes=(None, {0: rows})))
