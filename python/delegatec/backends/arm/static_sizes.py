# SPDX-License-Identifier: Apache-2.0
"""The constraint on sizes, for operators in floating point and on integers."""

from __future__ import annotations

from typing import Final

from delegatec.edge.legalize.constraints import static_shapes

STATIC: Final = static_shapes("TOSA 1.0 has no others.")
