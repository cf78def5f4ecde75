# SPDX-License-Identifier: Apache-2.0
"""A small residual network of timm's, with random weights."""

from __future__ import annotations

import torch

import delegatec

# Only needed without a torchvision for the CPU: importing torchvision fails unless its operators exist.
_LIBRARY = torch.library.Library("torchvision", "DEF")
for _operator in ("nms", "qnms"):
    _LIBRARY.define(f"{_operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def build() -> delegatec.Model:
    """Classifies an image of 64 x 64."""
    import timm

    network = timm.create_model("test_resnet", pretrained=False)
    return delegatec.Model(network.eval(), (torch.rand(1, 3, 64, 64),))
