# SPDX-License-Identifier: Apache-2.0
"""Operands and results of the format's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import flatbuffers
from delegatec_schemas import mlx_graph as schema

from delegatec.delegation.blobs.blob_graph import Family

NODE_NAMES: Final[dict[int, str]] = {
    value: name for name, value in vars(schema.Node).items() if not name.startswith("_") and value
}
RESULTS: Final = frozenset({"out", "outs", "outputs", "sliced"})
"""Fields with results. Others are operands; `carry` is both."""
CHAINS: Final = {"If": ("yes", "no"), "Scan": ("body",)}
"""Node -> fields with indices of chains."""


@cache
def _table(kind: int) -> Any:
    """Returns the class of a node's table, unpacked: several nodes may have the same."""
    builder = flatbuffers.Builder(16)
    builder.Finish(schema.NoopT().Pack(builder))
    empty = schema.Noop.GetRootAs(bytes(builder.Output()), 0)
    return type(schema.NodeCreator(kind, empty._tab))


def new_node(name: str) -> tuple[int, Any]:
    """Returns the type of a node in the union, and its table with the defaults of all fields."""
    kind: int = getattr(schema.Node, name)
    return kind, _table(kind)()


def tensor_ids(content: Any) -> Iterator[int]:
    """Yields the tensor slots in a field of an unpacked node."""
    if isinstance(content, schema.TensorT):
        yield content.id
    elif isinstance(content, schema.IndexT):
        if content.kind == 2 and content.tensor is not None:
            yield content.tensor.id
    elif isinstance(content, schema.ValueOrTensorT):
        if not content.isValue and content.tensor is not None:
            yield content.tensor.id
    elif isinstance(content, list):
        for each in content:
            yield from tensor_ids(each)


def value_ids(content: Any) -> Iterator[int]:
    """Yields the value slots in a field of an unpacked node."""
    if isinstance(content, schema.ValueT):
        yield content.id
    elif isinstance(content, (schema.IntT, schema.FloatT, schema.ValueOrTensorT)):
        if content.isValue and content.value is not None:
            yield content.value.id
    elif isinstance(content, schema.IndexT):
        if content.kind == 1 and content.value is not None:
            yield content.value.id
    elif isinstance(content, list):
        for each in content:
            yield from value_ids(each)


FAMILIES: Final[dict[Family, tuple[str, ...]]] = {
    Family.COMPUTE: (
        *("Addmm", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
        *("GatherMm", "GatherQmm", "QuantizedMatmul", "Sdpa", "UpdateAndAttend"),
    ),
    Family.ACTIVATION: ("Clip", "Gelu", "Sigmoid", "Silu", "Tanh"),
    Family.NORMALIZE: ("LayerNorm", "RmsNorm", "Rope", "Softmax"),
    Family.REDUCE: (
        *("All", "Any", "Argmax", "Argmin", "ArgPartition", "Argsort", "Cumsum", "LogSumExp", "Max", "Mean"),
        *("Median", "Min", "Partition", "Prod", "Sort", "Std", "Sum", "Var"),
    ),
    Family.INDEX: (*("Gather", "IndexCopy", "ScatterAdd", "SliceUpdate", "Take", "TakeAlongAxis"),),
    Family.MOVE: (
        *("AsStrided", "BroadcastTo", "Concatenate", "Contiguous", "ExpandDims", "Flip", "IdCopy", "Pad"),
        *("Repeat", "Reshape", "Roll", "Slice", "Split", "Squeeze", "Stack", "Tile", "Transpose"),
    ),
    Family.CONVERT: ("Arange", "AsType", "Dequantize", "Full", "FullLike", "RandomBits", "Tri"),
}
