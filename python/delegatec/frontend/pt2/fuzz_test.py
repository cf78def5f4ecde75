# SPDX-License-Identifier: Apache-2.0
"""Mutated archives end in a diagnostic, or in a program that can be lowered or is rejected with one."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.frontend.pt2.testing import members, write
from delegatec.lowering import lower

SEED = int(os.environ.get("FUZZ_SEED", "1"))
COUNT = int(os.environ.get("FUZZ_COUNT", "250"))
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        2**31,
        2**63,
        -(2**63),
        10**30,
        0.5,
        1e308,
        "",
        "x",
        "linear",
        "\ud800",
    ),
    *("torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor", "_operator.add", [], {}, [[]], [0], [1, 2]),
    *(
        {"as_int": 0},
        {"as_int": 3},
        {"as_none": True},
        {"as_name": "linear"},
        {"as_tensor": {"name": "linear"}},
    ),
    *({"as_expr": {"expr_str": "Symbol('s0')", "hint": None}}, {"as_float": 2.0}, {"as_string": "mean"}),
)


class Net(torch.nn.Module):
    """Weights, state, several results, and control flow."""

    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 4, 3)
        self.linear = torch.nn.Linear(6, 6)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor, *, scale: float) -> dict[str, Any]:
        self.steps.add_(1)
        a, b = self.linear(self.conv(x)).split(2, dim=1)
        c = torch.cond(self.steps.sum() > 2, lambda t: t.relu(), lambda t: t.neg(), (a,))
        return {"c": c.softmax(-1) * scale, "d": [b.transpose(1, 2).reshape(-1, 2).mean(0), self.steps + 0]}


def models(dynamic: bool) -> Model:
    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=8)}, "scale": None}
    return Model(Net(), (torch.ones(3, 2, 8),), {"scale": 0.5}, dynamic_shapes=shapes if dynamic else None)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each container of a JSON document with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def mutated_json(content: bytes, rng: random.Random) -> bytes:
    document = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        found = list(places(document))
        if not found:
            break
        if rng.random() < 0.5:
            mutate_leaf(found, rng)
        else:
            mutate_tree(found, rng)
    return json.dumps(document).encode()


def mutate_leaf(found: list[tuple[Any, Any]], rng: random.Random) -> None:
    """Replaces a value by another one of its type: most of these reach the later checks."""
    leaves = [(owner, key) for owner, key in found if not isinstance(owner[key], (dict, list))]
    if not leaves:
        return
    owner, key = rng.choice(leaves)
    like = [other[k] for other, k in leaves if type(other[k]) is type(owner[key]) and other[k] != owner[key]]
    if isinstance(owner[key], int) and (not like or rng.random() < 0.5):
        like = [owner[key] + 1, owner[key] - 1, not owner[key]]
    if like:
        owner[key] = rng.choice(like)


def mutate_tree(found: list[tuple[Any, Any]], rng: random.Random) -> None:
    owner, key = rng.choice(found)
    other, other_key = rng.choice(found)
    match rng.randrange(5):
        case 0:
            owner[key] = json.loads(json.dumps(other[other_key]))
        case 1:
            del owner[key]
        case 2 if isinstance(owner, list):
            owner.insert(key, json.loads(json.dumps(owner[key])))
        case 3 if isinstance(owner[key], str) and owner[key]:
            at = rng.randrange(len(owner[key]))
            owner[key] = owner[key][:at] + rng.choice("019axs(),.\"'\\\n") + owner[key][at + 1 :]
        case _:
            owner[key] = rng.choice(_VALUES)


def mutated(content: dict[str, bytes], whole: bytes, path: Path, rng: random.Random) -> None:
    """Writes one mutation of an archive: of its bytes, or of a member, with valid checksums."""
    if rng.random() < 0.15:
        changed = bytearray(whole)
        for _ in range(rng.choice((1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.3 else changed)
        return
    documents = [name for name in content if name.endswith(".json")]
    program = [name for name in documents if name.startswith("models/")]
    name = rng.choice(program if rng.random() < 0.7 else documents)
    edited = {**content, name: mutated_json(content[name], rng)}
    if rng.random() < 0.05:
        edited.pop(rng.choice(list(edited)))
    write(path, edited)


@pytest.mark.parametrize("dynamic", [False, True])
def test_mutations_end_in_diagnostics(tmp_path: Path, dynamic: bool) -> None:
    good, path = tmp_path / "good.pt2", tmp_path / "bad.pt2"
    archive.save(export(models(dynamic)), str(good), {"size": (1, 2.0, torch.ones(2))})
    content, whole = members(good), good.read_bytes()
    read = lowered = 0
    for index in range(COUNT):
        mutated(content, whole, path, random.Random(f"{SEED} {dynamic} {index}"))
        try:
            model = archive.load(str(path))
            read += 1
            lower(model.methods, constant_methods=model.constant_methods)
            lowered += 1
        except DelegatecError as error:
            assert all(len(problem.message) < 2000 for problem in error.diagnostics)
        except Exception as error:
            raise AssertionError(f"seed {SEED}, mutation {index}, dynamic {dynamic}") from error
    assert COUNT / 20 < read < COUNT * 0.9
    assert lowered
