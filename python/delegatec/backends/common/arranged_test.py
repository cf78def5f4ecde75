# SPDX-License-Identifier: Apache-2.0
"""Tests of permuted constants."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.arranged import Arrange, ArrangedElements
from delegatec.backends.common.constants import to_float16
from delegatec.delegation.protocol.parts import TensorBytes, join, tensor_bytes
from delegatec.edge.scaled import ScaledTensor

_ARRANGEMENTS: dict[str, Arrange] = {
    "channels last": lambda x: x.permute(0, 2, 3, 1),
    "depthwise": lambda x: x.permute(1, 2, 3, 0),
    "groups": lambda x: x.view(2, 3, *x.shape[1:]).permute(0, 2, 3, 4, 1),
    "as it is": lambda x: x,
}
_FILTER = torch.arange(6 * 4 * 3 * 2, dtype=torch.float32).view(6, 4, 3, 2).sin()


@pytest.mark.parametrize("name", _ARRANGEMENTS)
@pytest.mark.parametrize("step", [1, 7, 50, 1000])
def test_slices_are_those_of_a_copy(name: str, step: int) -> None:
    arrange = _ARRANGEMENTS[name]
    elements = ArrangedElements(_FILTER, arrange)
    wanted = arrange(_FILTER).reshape(-1)
    found = [elements[start : start + step] for start in range(0, elements.numel(), step)]
    assert torch.equal(torch.cat(found), wanted)
    assert elements.shape == tuple(arrange(_FILTER).shape)
    part = TensorBytes(elements, 4)
    written = [part[start : start + 4 * step] for start in range(0, len(part), 4 * step)]
    assert b"".join(written) == bytes(tensor_bytes(wanted))


@pytest.mark.parametrize("name", _ARRANGEMENTS)
@pytest.mark.parametrize("channels", [6, 24])
def test_scaled_weights_are_those_of_a_copy(name: str, channels: int) -> None:
    arrange = _ARRANGEMENTS[name]
    scaled = ScaledTensor(_FILTER, torch.linspace(0.3, 2, channels, dtype=torch.float64))
    wanted = tensor_bytes(arrange(scaled.computed()).contiguous())
    assert join([TensorBytes(ArrangedElements(scaled, arrange), 4)]) == bytes(wanted)


def test_float16_is_converted_in_the_order_in_which_it_is_written() -> None:
    def arrange(x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1)

    large = _FILTER * 1e5
    part, lost = to_float16(large, saturates=True, written=ArrangedElements(large, arrange))
    wanted = arrange(large).contiguous().clamp(-65504, 65504).half()
    assert join([part]) == bytes(tensor_bytes(wanted))
    assert not lost
    assert "beyond float16" in to_float16(large, written=ArrangedElements(large, arrange))[1]


def test_a_slice_copies_only_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    reshape = torch.Tensor.reshape

    def counting(self: torch.Tensor, *shape: int) -> torch.Tensor:
        copied.append(self.numel())
        return reshape(self, *shape)

    monkeypatch.setattr(torch.Tensor, "reshape", counting)
    elements = ArrangedElements(torch.zeros(64, 16, 3, 3), lambda x: x.permute(0, 2, 3, 1))
    assert elements[300:500].numel() == 200
    assert sum(copied) <= 4 * 144


def test_parts_of_a_row_are_contiguous() -> None:
    filter = torch.arange(64 * 9, dtype=torch.int8).view(64, 1, 3, 3)
    part = TensorBytes(ArrangedElements(filter, lambda x: x.movedim(0, -1)), 1)
    wanted = bytes(tensor_bytes(filter.movedim(0, -1).contiguous()))
    assert b"".join([part[0:5], part[5:64], part[64:576]]) == wanted
