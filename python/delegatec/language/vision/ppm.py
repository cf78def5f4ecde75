# SPDX-License-Identifier: Apache-2.0
"""Images of tests: binary portable pixmaps (.ppm), whose bytes are those that a program takes."""

from __future__ import annotations

import os
import re
from typing import Final

import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.files import HEAD_BYTES, kind_of_file
from delegatec.language.vision.images import ImageFormat

# Width, height and the largest value, with comments between them, and one space before the pixels.
_SPACE: Final = rb"(?:\s|#[^\n]*\n)+"
_HEADER: Final = re.compile(rb"P6" + _SPACE + _SPACE.join([rb"(\d{1,9})"] * 3) + rb"\s")
_CHANNELS: Final = 3


def read_image(path: str, format: ImageFormat) -> Tensor:
    """Returns an image, uint8 [3, height, width].

    Args:
        path: of the file.
        format: the images that the program takes.

    Raises:
        DelegatecError: DC504, the file is not a portable pixmap of this size with a byte for each color.
    """
    with open(path, "rb") as file:
        content = file.read()
    name, size = os.path.basename(path), f"{format.width} x {format.height}"
    header = _HEADER.match(content)
    if header is None:
        raise _refused(f"cannot read {name}: {kind_of_file(content[:HEAD_BYTES])}", size)
    width, height, largest = map(int, header.groups())
    pixels = content[header.end() :]
    if (width, height) != (format.width, format.height):
        raise _refused(f"{name} has {width} x {height} pixels", size)
    if largest != 255 or len(pixels) != _CHANNELS * width * height:
        raise _refused(f"{name} has {len(pixels)} bytes of pixels up to {largest}", size)
    rows = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
    return rows.view(height, width, _CHANNELS).permute(2, 0, 1).contiguous()


def _refused(text: str, size: str) -> DelegatecError:
    expected = f"a binary portable pixmap (P6) of {size} pixels, with 3 bytes each"
    help = f"convert it: magick photo.jpg -resize {size.replace(' ', '')}! image.ppm"
    return DelegatecError([Diagnostic("DC504", text, expected=expected, help=help)])
