# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits, packed by the peer's compiler as on a Mac, and by ours."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from delegatec_schemas.mps_graph import DataType
from torch import Tensor

from delegatec.backends.mps.blob import Blob, read_blob
from delegatec.backends.mps.operators.quantized.testing import PRESERVED, Weight, quantized_values, scales
from delegatec.backends.mps.testing import compile_module
from tests.peer.blobs import peer_blobs
from tests.peer.lowering import runner

X: Final = torch.randn(3, 64, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two functions that require a Mac in the peer, implemented as in PyTorch's sources."""
    move = Tensor.to

    def to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if args == ("mps",) else move(tensor, *args, **kwargs)

    def convert(weight: Tensor, tiles: int) -> Tensor:
        rows, half = weight.shape
        assert weight.dtype == torch.uint8
        # `weight_to_int4pack` of Quantized.metal: each thread takes four bytes, and turns each of them.
        turned = ((weight & 0x0F) << 4) | (weight >> 4)
        # `_convert_weight_to_int4pack_mps` of Quantized.mm: the shape is made up, as elsewhere.
        return turned.view(torch.int32).view(rows // 8, 2 * half // (16 * tiles), 32, tiles // 2)

    monkeypatch.setattr(Tensor, "to", to)
    monkeypatch.setattr(torch, "_convert_weight_to_int4pack", convert)


def constants(blob: Blob) -> dict[tuple[int, ...], tuple[int, bytes]]:
    """Shape -> type and bytes."""
    values = [blob.graph.mpsValues[id] for id in blob.graph.constantIds]
    return {tuple(v.dims): (v.datatype, bytes(blob.constant(v))) for v in values}


@pytest.mark.usefixtures("mac")
def test_the_same_bytes_and_the_same_results() -> None:
    module = Weight(quantized_values(16, 64), scales(16, 2), torch.zeros(16, 2, dtype=torch.int32), 32)
    (theirs,) = peer_blobs(module, (X,), fp16=True)
    (ours,) = compile_module(module, (X,), "fp16", PRESERVED, int4="packed").blobs()
    peer, own = (constants(read_blob(memoryview(data))) for data in (theirs, ours))
    assert own[16, 64] == peer[16, 64] and own[16, 64][0] == DataType.INT4
    assert own[16, 2] == peer[16, 2] and own[16, 2][0] == DataType.FLOAT16
    wanted = module(X)
    for data in (theirs, ours):
        (result,) = runner(data)(X)
        torch.testing.assert_close(result, wanted, rtol=0, atol=2e-3 * wanted.abs().max().item())
