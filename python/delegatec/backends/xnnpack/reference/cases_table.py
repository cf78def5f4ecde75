# SPDX-License-Identifier: Apache-2.0
"""All cases."""

from __future__ import annotations

from typing import Final

from delegatec.backends.xnnpack.reference.cases import Case
from delegatec.backends.xnnpack.reference.cases_elementwise import ELEMENTWISE
from delegatec.backends.xnnpack.reference.cases_images import IMAGES
from delegatec.backends.xnnpack.reference.cases_layers import LAYERS
from delegatec.backends.xnnpack.reference.cases_moves import MOVES

CASES: Final[tuple[Case, ...]] = (*ELEMENTWISE, *MOVES, *LAYERS, *IMAGES)
