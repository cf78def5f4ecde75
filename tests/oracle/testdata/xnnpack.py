# SPDX-License-Identifier: Apache-2.0
"""Writes xnnpack.pte: the peer's own lowering of two layers for a backend that its wheel can run.

Run by hand, with the wheels of third_party/python/oracle.lock.txt and torchao 0.18.0, which the peer's
partitioner imports and nothing else here needs.
"""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower


def model() -> torch.nn.Module:
    """Two layers: [2, 8] to [2, 4]."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()


if __name__ == "__main__":
    exported = torch.export.export(model(), (torch.zeros(2, 8),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
    Path(__file__).with_suffix(".pte").write_bytes(lowered.buffer)
