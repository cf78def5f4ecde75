# SPDX-License-Identifier: Apache-2.0
"""Archives for tests: written, edited, damaged and compared."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from delegatec.frontend.aligned_zip import AlignedZipWriter

ROOT = "archive"
PROGRAM = "models/model.json"
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


def members(path: Path) -> dict[str, bytes]:
    """Returns the members of an archive by their path below the root directory."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def write(path: Path, content: dict[str, bytes]) -> str:
    """Writes an archive with valid headers and checksums; returns its path."""
    with path.open("wb") as file, AlignedZipWriter(file, ROOT) as archive:
        for name, data in content.items():
            archive.write(name, [data], len(data))
    return str(path)


def edited(path: Path, member: str, change: Callable[[Any], None]) -> str:
    """Changes the JSON of a member in place, and returns the path of the new archive."""
    content = members(path)
    document = json.loads(content[member])
    change(document)
    content[member] = json.dumps(document).encode()
    return write(path.with_name("edited.pt2"), content)


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each container of a JSON document with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from entries(value[key])


def mutated_json(content: bytes, rng: random.Random) -> bytes:
    """Changes one to four values or parts of a JSON document."""
    document = json.loads(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        found = list(entries(document))
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
    """Copies, deletes or repeats a part, or replaces it by any value."""
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


def described(program: ExportedProgram) -> list[str]:
    """Returns everything that the compiler reads of a program, without the tensors' content."""
    lines = []
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                kept = {
                    key: node.meta[key]
                    for key in ("stack_trace", "nn_module_stack", "custom", "unbacked_bindings")
                    if key in node.meta
                }
                value = _value(node.meta.get("val"))
                lines.append(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {value} {kept}")
    stored = {name: _value(tensor) for name, tensor in {**program.state_dict, **program.constants}.items()}
    bounds = {str(symbol): str(limits) for symbol, limits in program.range_constraints.items()}
    call = program.module_call_graph[0]
    assert call.signature is not None
    names = call.signature.forward_arg_names
    return [
        *lines,
        f"{program.graph_signature} {program.call_spec} {stored} {bounds} {program.dialect} {names}",
    ]


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes = [str(size) for size in value.shape], [str(stride) for stride in value.stride()]
        return type(value).__name__, value.dtype, value.device, value.requires_grad, sizes
    if isinstance(value, (tuple, list)):
        return [_value(item) for item in value]
    return type(value).__name__, str(value)
