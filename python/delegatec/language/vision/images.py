# SPDX-License-Identifier: Apache-2.0
"""Images that a program takes: their size, and what is computed of their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.folder import PREPROCESSOR_CONFIG, Description

_CHANNELS: Final = 3
_RESCALE: Final = 1 / 255


@dataclass(frozen=True)
class ImageFormat:
    """An image, uint8 [3, height, width], and the pixels of the network: `byte * scale + offset`.

    Attributes:
        height: rows.
        width: columns.
        scale: the factor of each channel.
        offset: the summand of each channel.
    """

    height: int
    width: int
    scale: tuple[float, ...]
    offset: tuple[float, ...]


def image_format(description: Description, size: int | Sequence[int]) -> ImageFormat:
    """Returns the images of a checkpoint.

    Args:
        description: the checkpoint.
        size: the size of images that its network takes: of both dimensions, or height and width.

    Raises:
        DelegatecError: DC115, nothing describes its preprocessor; DC117, a setting is missing, or is
            that of another network.
    """
    values: Mapping[str, Any] = description.preprocessor
    values = values.get("image_processor", values)
    if not values:
        text = f"the checkpoint has no {PREPROCESSOR_CONFIG}"
        help = "list all files of the published folder"
        expected = f"{PREPROCESSOR_CONFIG} or processor_config.json, which say how pixels are normalized"
        raise DelegatecError([Diagnostic("DC115", text, expected=expected, help=help)])
    height, width = (size, size) if isinstance(size, int) else size
    found = _processed_size(values)
    if found and found != (height, width):
        raise _mismatch(
            f"the preprocessor of the checkpoint makes images of {found[0]} x {found[1]} pixels, and the "
            f"configuration says {height} x {width}"
        )
    rescale = float(values.get("rescale_factor", _RESCALE)) if values.get("do_rescale", True) else 1.0
    is_normalized = values.get("do_normalize", True)
    mean, deviation = (
        _channels(values, name) if is_normalized else (default,) * _CHANNELS
        for name, default in (("image_mean", 0.0), ("image_std", 1.0))
    )
    return ImageFormat(
        height,
        width,
        tuple(rescale / each for each in deviation),
        tuple(-each / other for each, other in zip(mean, deviation, strict=True)),
    )


def _processed_size(values: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the size of images after the preprocessor; None if it does not say."""
    size = values.get("crop_size" if values.get("do_center_crop") else "size")
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and {"height", "width"} <= {*size}:
        return size["height"], size["width"]
    # that of a tile
    longest = (values.get("max_image_size") or {}).get("longest_edge")
    return (longest, longest) if longest else None


def _channels(values: Mapping[str, Any], name: str) -> tuple[float, ...]:
    found = values.get(name)
    channels = tuple(found) if isinstance(found, list) else (found,) * _CHANNELS
    is_right = len(channels) == _CHANNELS and all(isinstance(each, int | float) for each in channels)
    if not is_right or (name == "image_std" and not all(channels)):
        raise _mismatch(f"{name} of the checkpoint's preprocessor is {found}")
    return channels


def _mismatch(text: str) -> DelegatecError:
    help = "use files that were published together"
    expected = "an image of one size, and a mean and a standard deviation for each of 3 channels"
    return DelegatecError([Diagnostic("DC117", text, expected=expected, help=help)])
