# SPDX-License-Identifier: Apache-2.0
"""The notes on the methods of a lowered model; see `diagnostics/notes.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.delegation import DelegateSummary, DelegationReport, call_delegate
from delegatec.diagnostics import Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean
from delegatec.diagnostics.notes import NOTES, Note
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.float_regions import float_regions, note_on_region
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_LAYERS: Final = frozenset(
    getattr(aten, name).default for name in ("convolution", "linear", "mm", "addmm", "bmm")
)
_LEAST_BYTES: Final = 4096
"""Duplicates of fewer bytes are not worth a note."""


def notes_of(
    programs: Mapping[str, EdgeProgram],
    reports: Mapping[str, DelegationReport],
    silenced: Collection[str] = (),
) -> dict[str, tuple[Note, ...]]:
    """Returns the notes on each method that has any.

    Args:
        programs: method -> its program, delegates in place, before emission.
        reports: method -> its delegates.
        silenced: kinds of notes to leave out.
    """
    found: dict[str, list[Note]] = defaultdict(list)
    for name, report in reports.items():
        for delegate in report.delegates:
            found[name] += _of_delegate(programs[name], delegate)
        found[name] += _on_the_cpu(programs[name])
    for name, note in _duplicates(reports):
        found[name].append(note)
    kept = {
        name: tuple(dict.fromkeys(note for note in notes if note.name not in silenced))
        for name, notes in found.items()
    }
    return {name: notes for name, notes in kept.items() if notes}


def silencing_problems(names: Iterable[str]) -> list[Diagnostic]:
    """Returns DC425 for each name that is not a kind of notes."""
    return [
        Diagnostic(
            "DC425",
            f"no note is named {name!r}",
            expected=", ".join(NOTES),
            help=did_you_mean(name, NOTES),
        )
        for name in names
        if name not in NOTES
    ]


def _of_delegate(program: EdgeProgram, delegate: DelegateSummary) -> Iterator[Note]:
    for note in delegate.module.notes:
        if note.operand is None:
            yield note
        elif (source := _row_major_input(program, delegate, note.operand)) is not None:
            yield replace(note, message=note.message.replace("{operand}", source.name), operand=None)


def _row_major_input(program: EdgeProgram, delegate: DelegateSummary, position: int) -> Node | None:
    """Returns the method's input that a delegate has as an operand, maybe converted, if it is row-major."""
    calls = (node for node in program.graph.nodes if node.target is call_delegate)
    (call,) = (node for node in calls if node.args[0].target == delegate.module.name)
    source: Any = call.args[1 + position]
    while source.op != "placeholder":
        values = [each.meta["val"] for each in source.all_input_nodes]
        is_converted = len(values) == 1 and isinstance(values[0], torch.Tensor)
        if not is_converted or sizes_key(values[0]) != sizes_key(source.meta["val"]):
            return None
        (source,) = source.all_input_nodes
    is_input = source in program.user_inputs() and source.name not in program.dim_orders
    return source if is_input else None


def _on_the_cpu(program: EdgeProgram) -> Iterator[Note]:
    """Yields notes on operators that compute in floating point between int8 delegates."""

    def is_source(node: Node) -> bool:
        return node.target is DEQUANTIZE and _is_of_delegate(node.all_input_nodes[0])

    def is_sink(node: Node) -> bool:
        return node.target is QUANTIZE and any(user.target is call_delegate for user in node.users)

    regions = float_regions(list(program.graph.nodes), is_source, is_sink)
    for region in regions:
        if any(node.target in _LAYERS for node in region):
            continue  # a user keeps layers in floating point on purpose
        yield note_on_region(
            region, "on the CPU", "quantize them, too, or see the reasons why they are not delegated"
        )


def _is_of_delegate(node: Node) -> bool:
    return bool(node.all_input_nodes) and node.all_input_nodes[0].target is call_delegate


def _duplicates(reports: Mapping[str, DelegationReport]) -> Iterator[tuple[str, Note]]:
    """Yields method and note for weights that several delegates store; named data is stored once."""
    uses: dict[Any, list[tuple[str, DelegateSummary, str, torch.Tensor]]] = defaultdict(list)
    for method, report in reports.items():
        for delegate in report.delegates:
            if delegate.module.named_data:
                continue
            for name, tensor in delegate.constants.items():
                uses[_storage(tensor)].append((method, delegate, name, tensor))
    groups: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    first: dict[tuple[str, ...], str] = {}
    for several in uses.values():
        owners = {(method, delegate.module.name) for method, delegate, _, _ in several}
        if len(owners) < 2:
            continue
        method, _, name, tensor = several[0]
        key = tuple(sorted(f"{each} of {of}" for of, each in owners))
        first.setdefault(key, method)
        groups[key].append((name, tensor.nbytes * (len(owners) - 1)))
    for key, weights in groups.items():
        total = sum(size for _, size in weights)
        if total >= _LEAST_BYTES:
            yield first[key], _duplicate_note(key, weights, total)


def _duplicate_note(owners: Sequence[str], weights: Sequence[tuple[str, int]], total: int) -> Note:
    largest = max(weights, key=lambda each: each[1])[0]
    others = f" and {len(weights) - 1} more weights" if len(weights) > 1 else ""
    message = f"{largest}{others}, {total} B in the model, stored again in {' and '.join(owners)}"
    return Note(
        "duplicated-weights",
        message,
        help="fewer delegates store them once; mlx, vulkan and xnnpack share weights between delegates",
    )


def _storage(tensor: torch.Tensor) -> tuple[int, int, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.nbytes, tuple(tensor.shape)
