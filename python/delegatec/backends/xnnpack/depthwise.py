# SPDX-License-Identifier: Apache-2.0
"""The limit of XNNPACK's depthwise kernels."""

from __future__ import annotations

import math
from typing import Final

from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of

MOST_TAPS: Final = 25


def is_large(convolution: Node) -> bool:
    """Whether a convolution is depthwise, with a result for each channel, and has a large kernel."""
    bound = bind(convolution)
    outputs, _, *kernel = shape_of(bound["weight"])
    return bool(outputs == bound["groups"]) and math.prod(kernel) > MOST_TAPS
