# SPDX-License-Identifier: Apache-2.0
"""Attention of encoders: the heads that are computed at a time do not matter."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from delegatec.language import attention


@pytest.mark.parametrize("most", [1, 2 * 5 * 7, 4 * 5 * 7])
def test_parts_of_heads_are_those_of_all(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_SCORES", most)
    query, key, value = torch.randn(1, 4, 5, 8), torch.randn(1, 4, 7, 8), torch.randn(1, 4, 7, 8)
    wanted = functional.scaled_dot_product_attention(query, key, value, scale=0.3)
    found, _ = attention.encoder_attention(nn.Identity(), query, key, value, None, scaling=0.3)
    torch.testing.assert_close(found, wanted.transpose(1, 2))
    exported = torch.export.export(_Attention(), (query, key, value)).graph
    calls = [node for node in exported.nodes if "scaled_dot_product" in str(node.target)]
    assert len(calls) == {1: 4, 70: 2, 140: 1}[most]


class _Attention(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return attention.encoder_attention(self, query, key, value, None)[0]
