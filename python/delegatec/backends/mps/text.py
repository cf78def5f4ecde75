# SPDX-License-Identifier: Apache-2.0
"""Blobs as text: one line for each input, constant and operation, in the order in which they run."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.mps_graph import DataType, GraphType, ValueT

from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.reference.executor import OPERATION_NAMES
from delegatec.backends.mps.reference.movement import ints

_TYPES: Final[dict[int, str]] = {
    value: name.lower() for name, value in vars(DataType).items() if not name.startswith("_")
}
_RESULTS: Final = ("outputId", "outputIds", "output1Id", "output2Id", "output3Id")


def describe_blob(blob: Blob) -> str:
    """The graph: `%3: float32[1, 10] = Addmm(%0, %2, %1, alpha=1.0, beta=1.0)`."""
    graph = blob.graph
    kind = "one kernel" if graph.graphType == GraphType.METAL_KERNEL else "an MPSGraph"
    lines = [
        f"{kind}: {len(graph.mpsNodes)} operations, {len(graph.mpsValues)} values, "
        f"{len(graph.constantIds)} constants in {len(blob.constants)} B"
    ]
    lines += [f"  input    {_value(graph.mpsValues, id)}" for id in graph.inputIds]
    for id in graph.constantIds:
        value = graph.mpsValues[id]
        lines.append(f"  constant {_value(graph.mpsValues, id)} at {value.segmentOffset}")
    lines += [f"  {_operation(graph.mpsValues, node)}" for node in graph.mpsNodes]
    lines.append(f"  return {', '.join(f'%{id}' for id in graph.outputIds)}")
    return "\n".join(lines) + "\n"


def _value(values: list[ValueT], id: int) -> str:
    value = values[id]
    return f"%{id}: {_TYPES[value.datatype]}{ints(value.dims)}"


def _operation(values: list[ValueT], node: Any) -> str:
    fields = vars(node.mpsnodeUnion)
    results = [id for name in _RESULTS if name in fields for id in _ids(fields[name]) if id >= 0]
    arguments = [_argument(name, field) for name, field in fields.items() if name not in _RESULTS]
    if node.minMax is not None:
        arguments.append(f"min={node.minMax.minValue}, max={node.minMax.maxValue}")
    left = ", ".join(_value(values, id) for id in results)
    return f"{left} = {OPERATION_NAMES[node.mpsnodeUnionType]}({', '.join(arguments)})"


def _argument(name: str, field: Any) -> str:
    if name.endswith(("Id", "Ids")):
        ids = ["none" if id < 0 else f"%{id}" for id in _ids(field)]
        return f"[{', '.join(ids)}]" if _is_list(field) else ids[0]
    return f"{name}={ints(field) if _is_list(field) else field}"


def _ids(field: Any) -> list[int]:
    return ints(field) if _is_list(field) else [int(field)]


def _is_list(field: Any) -> bool:
    """Whether a field is a vector; flatc leaves one that is absent or empty as None."""
    return field is None or hasattr(field, "__len__")
