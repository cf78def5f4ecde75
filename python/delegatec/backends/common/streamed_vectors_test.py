# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers with vectors that are not in memory while they are packed."""

from __future__ import annotations

import numpy as np
import pytest
from delegatec_schemas import tosa_graph as schema

from delegatec.backends.common.streamed_vectors import StreamedVectors
from delegatec.delegation.protocol.parts import join


@pytest.mark.parametrize("sizes", [(), (1,), (5, 16, 0, 3)])
def test_vectors_follow_the_tables_aligned(sizes: tuple[int, ...]) -> None:
    contents = [bytes(range(k, k + size)) for k, size in enumerate(sizes)]
    vectors = StreamedVectors()
    tensors = [
        schema.TensorT(f"t{k}", [len(each)], schema.DType.INT8, vectors.add(each))
        for k, each in enumerate(contents)
    ]
    block = schema.BlockT("main", [], tensors, [], [], [])
    graph = schema.GraphT(schema.VersionT(1, 0, 0, False), [schema.RegionT("r", [block])])
    parts = vectors.pack(graph, b"TOSA")
    data = join(parts)
    read = schema.GraphT.InitFromPackedBuf(data, 0).regions[0].blocks[0].tensors or []
    assert [b"" if each.data is None else bytes(each.data) for each in read] == contents
    assert [len(part) for part in parts[2::2]] == list(sizes)
    starts = np.cumsum([len(part) for part in parts])[1::2]
    assert all(start % 16 == 0 for start in starts)
