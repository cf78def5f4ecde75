# SPDX-License-Identifier: Apache-2.0
"""The samples of every operator that the runtime has a kernel for."""

from __future__ import annotations

from typing import Final

from tests.oracle.grid_elementwise import ELEMENTWISE
from tests.oracle.grid_network import NETWORK
from tests.oracle.grid_reduction import REDUCTION
from tests.oracle.grid_sample import Samples
from tests.oracle.grid_shape import SHAPE

SAMPLES: Final[dict[str, Samples]] = {**ELEMENTWISE, **REDUCTION, **SHAPE, **NETWORK}
