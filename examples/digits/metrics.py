# SPDX-License-Identifier: Apache-2.0
"""The metric of the networks, for the tests of their programs."""

from __future__ import annotations

import torch


def top1(logits: torch.Tensor, digit: torch.Tensor) -> bool:
    """Returns whether the most probable digit is the one in the image."""
    return logits.argmax().item() == digit.item()
