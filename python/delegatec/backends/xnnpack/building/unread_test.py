# SPDX-License-Identifier: Apache-2.0
"""A pooling whose indices nothing reads becomes a plain max pool."""

from __future__ import annotations

import pytest
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.building.draft import Draft
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.delegation.protocol.parts import chunks


@pytest.mark.parametrize(
    ("outputs", "expected"), [([1], ["MaxPooling"]), ([1, 2], ["ArgMaxPooling"]), ([2, 1], ["ArgMaxPooling"])]
)
def test_positions_that_nothing_reads(outputs: list[int], expected: list[str]) -> None:
    """The runtime ended with a segmentation fault, as for `max_pool3d`."""
    draft = Draft()
    draft.inputs = [draft.value(DataType.FLOAT32, [1, 4, 6, 8])]
    for data_type in (DataType.FLOAT32, DataType.INT32):
        draft.value(data_type, [1, 2, 2, 8])
    table = schema.ArgMaxPoolingT(0, 0, 0, 0, 2, 3, 0, 1, 2, 0)
    draft.steps.append(Step(schema.NodeT(Operation.ArgMaxPooling, table), ()))
    draft.outputs = outputs
    draft.simplify()
    blob = b"".join(chunk for part in draft.blob() for chunk in chunks(part))
    assert operations(blob) == expected
    (node,) = read_blob(memoryview(blob)).graph.nodes
    if expected == ["MaxPooling"]:
        found = node.operation
        assert (found.poolingHeight, found.strideHeight, found.poolingWidth, found.strideWidth) == (
            2,
            2,
            3,
            3,
        )
