# SPDX-License-Identifier: Apache-2.0
"""All operators with samples of their arguments."""

from __future__ import annotations

from typing import Final

import torch
from torch._ops import OpOverload

from tests.operators.elementwise import ELEMENTWISE
from tests.operators.network import NETWORK
from tests.operators.reduction import REDUCTION
from tests.operators.resize import RESIZE
from tests.operators.sample import Samples
from tests.operators.shape import SHAPE

CATALOGUE: Final[dict[str, Samples]] = {**ELEMENTWISE, **REDUCTION, **SHAPE, **NETWORK, **RESIZE}
"""Overload, such as "add.Tensor" -> samples for a dtype."""


def overload(name: str) -> OpOverload:
    """The operator of a name in the catalogue."""
    packet, _, variant = name.partition(".")
    found = getattr(getattr(torch.ops.aten, packet), variant)
    assert isinstance(found, OpOverload)
    return found
