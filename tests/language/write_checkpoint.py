# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of a small checkpoint of images and text, and images, with random values.

Usage: write_checkpoint.py FAMILY FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from delegatec.language.vision.testing import random_image, write_family, write_image


def main() -> None:
    """Runs the command line."""
    family, folder = sys.argv[1], Path(sys.argv[2])
    write_family(family, folder)
    for seed in (0, 1):
        write_image(folder / f"image_{seed}.ppm", random_image(seed))


if __name__ == "__main__":
    main()
