# SPDX-License-Identifier: Apache-2.0
"""All cases."""

from __future__ import annotations

from typing import Final

from delegatec.backends.xnnpack.testing.reference.cases import Case
from delegatec.backends.xnnpack.testing.reference.elementwise import ELEMENTWISE
from delegatec.backends.xnnpack.testing.reference.images import IMAGES
from delegatec.backends.xnnpack.testing.reference.layers import LAYERS
from delegatec.backends.xnnpack.testing.reference.moves import MOVES

CASES: Final[tuple[Case, ...]] = (*ELEMENTWISE, *MOVES, *LAYERS, *IMAGES)
