# SPDX-License-Identifier: Apache-2.0
"""Writes the images that the accuracy of programs is measured with: the 450 that are not trained on.

bazel run //examples/digits:evaluation -- $PWD/examples/digits/evaluation.safetensors
"""

from __future__ import annotations

import sys

from dataset import load_split
from safetensors.torch import save_file


def main(path: str) -> None:
    """Writes the images to `path`, each with the shape of the network's input, and their digits."""
    _, pictures = load_split()
    save_file({"0": pictures.pixels.unsqueeze(1).contiguous(), "labels": pictures.digits}, path)


if __name__ == "__main__":
    main(sys.argv[1])
