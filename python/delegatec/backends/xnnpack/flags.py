# SPDX-License-Identifier: Apache-2.0
"""Flags of the format's operations."""

from __future__ import annotations

from typing import Final

TRANSPOSED: Final = 1
"""BatchMatrixMultiply: the second operand is [.., n, k]. FullyConnected: the filter is [in, out]."""
FIRST_TRANSPOSED: Final = 2
"""BatchMatrixMultiply: the first operand is [.., k, m]. No runtime implements it."""
SAME_PADDING: Final = 4
"""Convolutions and pooling: padding follows from the size of the image, as in TensorFlow."""
OLD_POSITIONS: Final = 4
"""ResizeBilinear: sample positions are those of old versions of TensorFlow."""
ALIGNS_CORNERS: Final = 8
"""ResizeBilinear: the corners of both images are aligned."""
TRANSIENT_INDIRECTION: Final = 0x20
"""Convolutions, pooling, ResizeBilinear: the indirection buffer is not kept between runs."""
KEEPS_DIMENSIONS: Final = 0x40
"""GlobalAveragePooling: the reduced dimensions are kept with size one."""
