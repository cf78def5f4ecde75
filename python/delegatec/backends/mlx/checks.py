# SPDX-License-Identifier: Apache-2.0
"""Checks of an unpacked graph, so that its users can trust it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from delegatec_schemas import mlx_graph as schema

from delegatec.backends.common.graph_format import fill_absent, unknown_ids
from delegatec.backends.mlx.dtypes import FROM_FORMAT
from delegatec.backends.mlx.operands import CHAINS, NODE_NAMES, RESULTS, tensor_ids, value_ids

_MOST: Final = 1_000_000
"""Of slots, and of elements of each list: the runtime's limit."""
_RANK: Final = 16
_LISTS: Final = ("inputs", "outputs", "buffers", "names", "tensors", "chains")
_KINDS: Final = (schema.SlotType.TENSOR, schema.SlotType.INT)
# Fields that may be absent, of any node.
_OPTIONAL: Final = frozenset(
    {
        *("axes", "bias", "biases", "dims", "dtype", "freqs", "globalScale", "high", "layer", "lhsIndices"),
        *("low", "mask", "rhsIndices", "seed", "sortedFlag", "weight"),
    }
)
_OPTIONAL_IN: Final = {
    "UpdateAndAttend": ("scale",),
    "MetalKernel": (
        *("header", "inputNames", "outputNames", "outputShapes", "outputRanks", "outputDtypes"),
        *("templateNames", "templateKinds", "templateValues", "initValue"),
    ),
}
_RANGES: Final = ("numConstants", "numInputs", "numOutputs", "numBuffers", "numTemporaries")


def fill_lists(graph: schema.GraphT) -> None:
    """Replaces absent lists of the graph, its chains and its tensors by empty ones."""
    fill_absent(graph, *_LISTS)
    for chain in graph.chains:
        fill_absent(chain, "instructions")
    for tensor in graph.tensors:
        fill_absent(tensor, "sizes")


def text(value: Any) -> str:
    """Returns a text of an unpacked table."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value or "")


def count_of(graph: schema.GraphT) -> int:
    """Returns the number of tensor slots."""
    return sum(getattr(graph, name) for name in _RANGES)


def first_of(graph: schema.GraphT, name: str) -> int:
    """Returns the first slot of a range, such as that of `numBuffers`."""
    return sum(getattr(graph, each) for each in _RANGES[: _RANGES.index(name)])


def problems_of(graph: schema.GraphT, _: int) -> Iterator[str]:
    """Yields all problems of a graph, after `fill_lists`."""
    version = text(graph.version)
    if version not in ("", "1"):
        yield f"its version is {version}, not 1"
    count, values = count_of(graph), graph.numValues
    if max(count, values) > _MOST:
        yield f"it has {count} tensors and {values} values, more than {_MOST}"
        return
    if not graph.mainChain < len(graph.chains):
        yield f"its main chain is {graph.mainChain} of {len(graph.chains)}"
    if not -1 <= graph.initChain < len(graph.chains):
        yield f"its init chain is {graph.initChain} of {len(graph.chains)}"
    for name in ("inputs", "outputs", "buffers"):
        yield from _of_slots(name, getattr(graph, name), count, values)
    buffers = first_of(graph, "numBuffers")
    for slot in graph.buffers:
        if slot.type != schema.SlotType.TENSOR or not buffers <= slot.id < buffers + graph.numBuffers:
            yield f"slot {slot.id} is not that of a buffer"
    yield from _of_names(graph)
    yield from _of_tensors(graph)
    for index, chain in enumerate(graph.chains):
        for position, instruction in enumerate(chain.instructions):
            where = f"instruction {position} of chain {index}"
            yield from _of_instruction(graph, where, instruction, is_init=index == graph.initChain)
    yield from _of_chains(graph)


def _of_slots(name: str, slots: Iterable[schema.SlotT], count: int, values: int) -> Iterator[str]:
    for slot in slots:
        if slot.type not in _KINDS:
            yield f"{name} contains a slot of type {slot.type}"
        limit = count if slot.type == schema.SlotType.TENSOR else values
        if slot.id >= limit:
            yield f"{name} contains slot {slot.id} of {limit}"


def _of_names(graph: schema.GraphT) -> Iterator[str]:
    named: set[int] = set()
    for each in graph.names:
        if each.name is None or each.slot is None:
            yield "a name without a text or a slot"
        elif each.slot.type == schema.SlotType.TENSOR:
            named.add(each.slot.id)
    for id in sorted({*range(graph.numConstants)} - named):
        yield f"constant {id} has no name"


def _of_tensors(graph: schema.GraphT) -> Iterator[str]:
    buffers = first_of(graph, "numBuffers")
    fixed = {*range(graph.numConstants), *range(buffers, buffers + graph.numBuffers)}
    for id in sorted(each for each in fixed if each >= len(graph.tensors)):
        yield f"tensor {id} has no sizes"
    for id, tensor in enumerate(graph.tensors):
        if tensor.dtype not in FROM_FORMAT:
            yield f"unknown dtype of tensor {id}: {tensor.dtype}"
        if len(tensor.sizes) > _RANK:
            yield f"tensor {id} has {len(tensor.sizes)} dimensions"
        for size in tensor.sizes:
            is_range = size.value == -1 and size.least >= 0 and (size.most == -1 or size.least <= size.most)
            if size.value < 0 and (not is_range or id in fixed):
                yield f"tensor {id} has a size {size.value} from {size.least} to {size.most}"


def _of_instruction(
    graph: schema.GraphT, where: str, instruction: schema.InstructionT, *, is_init: bool
) -> Iterator[str]:
    node: Any = instruction.node
    if node is None:
        yield f"{where} has the unknown type {instruction.nodeType}"
        return
    name = NODE_NAMES[instruction.nodeType]
    for field, content in vars(node).items():
        if content is None and field not in _OPTIONAL and field not in _OPTIONAL_IN.get(name, ()):
            yield f"{where}, {name}, has no {field}"
            continue
        ids = list(tensor_ids(content))
        yield from unknown_ids(f"{where}, {name}, uses tensor", ids, count_of(graph))
        yield from unknown_ids(f"{where}, {name}, uses value", value_ids(content), graph.numValues)
        if field in RESULTS and not is_init and any(id < graph.numConstants for id in ids):
            yield f"{where}, {name}, writes to a constant"
        if field == "dst" and any(id < graph.numConstants for id in ids):
            yield f"{where}, {name}, updates a constant, which the runtime refuses"
        yield from (f"{where}, {name}: {problem}" for problem in _of_content(content))
    for field in CHAINS.get(name, ()):
        if not 0 <= getattr(node, field) < len(graph.chains):
            yield f"{where}, {name}, runs chain {getattr(node, field)} of {len(graph.chains)}"


def _of_content(content: Any) -> Iterator[str]:
    """Yields what is wrong with operands that may be literals."""
    for each in content if isinstance(content, list) else [content]:
        if isinstance(each, (schema.IntT, schema.FloatT)) and each.isValue and each.value is None:
            yield "a value is absent"
        if isinstance(each, schema.IndexT):
            given = {0: each.literal, 1: each.value, 2: each.tensor}.get(each.kind)
            if given is None:
                yield f"an index of kind {each.kind} is absent"
        if isinstance(each, schema.ValueOrTensorT) and (each.value if each.isValue else each.tensor) is None:
            yield "a position is absent"


def _of_chains(graph: schema.GraphT) -> Iterator[str]:
    """Yields a problem for each chain that runs itself."""
    runs = [
        {
            getattr(each.node, field)
            for each in chain.instructions
            if each.node is not None
            for field in CHAINS.get(NODE_NAMES[each.nodeType], ())
        }
        for chain in graph.chains
    ]
    for index in range(len(runs)):
        reached: set[int] = set()
        pending = [*runs[index]]
        while pending:
            chain = pending.pop()
            if chain not in reached and 0 <= chain < len(runs):
                reached.add(chain)
                pending += runs[chain]
        if index in reached:
            yield f"chain {index} runs itself"
