# SPDX-License-Identifier: Apache-2.0
"""Makes the peer's tests of torchvision's models importable: without its extension, and without downloads."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch

# Operators of the extension whose fake kernels torchvision registers when it is imported. The wheel on PyPI
# is for GPUs: torch's CPU build cannot load its extension.
_OPERATORS = ("nms", "qnms")
_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@contextmanager
def torchvision_in(folder: Path) -> Iterator[None]:
    """A scope in which torchvision is imported from a folder, and its models have random weights.

    The models' classes ask for checkpoints when the peer's modules are imported; within the scope the answer
    is that none was asked for, and torchvision draws weights, from a seed.

    Args:
        folder: where pip has installed torchvision and pillow, without dependencies.
    """
    library = torch.library.Library("torchvision", "DEF")  # Its operators live as long as it does.
    for name in _OPERATORS:
        library.define(name + _SIGNATURE)
    with patch.object(sys, "path", [*sys.path, str(folder)]):
        weights = importlib.import_module("torchvision.models._api").WeightsEnum
        with patch.object(weights, "verify", classmethod(lambda *_: None)):
            torch.manual_seed(0)
            yield
