# SPDX-License-Identifier: Apache-2.0
"""Blobs of the peer's MPSBackend, and a normal form in which they can be compared with ours.

The peer keeps operations that our edge program folds: products of constants, transposed weights, chains of
views. So everything that depends on constants only is computed here first, for both, by the reference
executor's semantics, and operations that only move data are counted apart from those that compute.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from delegatec_schemas.mps_graph import DataType

from delegatec.backends.mps.blob import Blob, read_blob
from delegatec.backends.mps.operands import OPERATION_NAMES, value_ids
from delegatec.backends.mps.reference.constants import constant_tensor, unpack_int4
from delegatec.backends.mps.reference.executor import SEMANTICS
from delegatec.backends.mps.reference.run import Run
from tests.peer.lowering import PeerProgram, peer_edge

MOVES = frozenset(
    ("Cast", "Cat", "ConstantPadND", "Expand", "Full", "FullLike", "Permute", "Select", "Slice")
    + ("SplitWithSizes", "Squeeze", "Unsqueeze", "View")
)

# Weights are not dequantized when a model is compiled.
_NOT_FOLDED = frozenset(("DequantizePerChannelGroup", "SplitWithSizes"))


def peer_blobs(
    module: torch.nn.Module, args: tuple[Any, ...], *, fp16: bool = False, forget: bool = True
) -> list[bytes]:
    """Returns the peer's blobs of a module; see `PeerProgram` for the settings."""
    return PeerProgram(peer_edge(torch.export.export(module.eval(), args)), fp16=fp16, forget=forget).blobs


@dataclass(frozen=True)
class NormalForm:
    """The operations of a blob.

    Attributes:
        compute: operations that compute -> how often.
        moves: operations that only move data -> how often.
        constants: shape, dtype and bytes of each remaining constant -> number of its uses.
        inputs: shape and dtype of each input.
        outputs: of each output.
    """

    compute: Counter[str]
    moves: Counter[str]
    constants: Counter[tuple[tuple[int, ...], str, bytes]]
    inputs: list[tuple[tuple[int, ...], int]]
    outputs: list[tuple[tuple[int, ...], int]]


def normal_form(data: bytes) -> NormalForm:
    """The normal form of a blob."""
    blob = read_blob(memoryview(data))
    graph = blob.graph
    run = Run(len(graph.mpsValues))
    known = set(graph.constantIds)
    packed = {id for id in known if graph.mpsValues[id].datatype == DataType.INT4}
    for id in known:
        if id in packed:
            run.set_int4(id, unpack_int4(blob, id))
        else:
            run[id] = constant_tensor(blob, id)
    compute: Counter[str] = Counter()
    moves: Counter[str] = Counter()
    constants: Counter[tuple[tuple[int, ...], str, bytes]] = Counter()
    for node in graph.mpsNodes:
        name, operation = OPERATION_NAMES[node.mpsnodeUnionType], node.mpsnodeUnion
        results = value_ids(_part(operation, of_results=True))
        operands = [id for id in value_ids(_part(operation, of_results=False)) if id >= 0]
        if name in ("Relu", "FullLike", "Full"):  # One of its ids is not read.
            operands = operands[:1] if name == "Relu" else []
        if name not in _NOT_FOLDED and all(id in known for id in operands):
            SEMANTICS[name](run, operation, node)
            known.update(results)
            continue
        if name == "SplitWithSizes":
            moves["Slice"] += len(results)
        else:
            (moves if name in MOVES else compute)[name] += 1
        for id in operands:
            if id in known:
                value = (run.int4(id) if id in packed else run[id]).contiguous()
                shape = tuple(size for size in value.shape if size != 1)
                constants[shape, str(value.dtype), value.numpy().tobytes()] += 1
    return NormalForm(compute, moves, constants, _kinds(blob, graph.inputIds), _kinds(blob, graph.outputIds))


def _part(operation: object, *, of_results: bool) -> object:
    """The fields of an operation that name its results, or the others."""
    fields = {name: v for name, v in vars(operation).items() if name.startswith("output") == of_results}
    return SimpleNamespace(**fields)


def _kinds(blob: Blob, ids: list[int]) -> list[tuple[tuple[int, ...], int]]:
    values = [blob.graph.mpsValues[id] for id in ids]
    return [(tuple(int(d) for d in (() if v.dims is None else v.dims)), v.datatype) for v in values]
