# SPDX-License-Identifier: Apache-2.0
"""Writes the calibration samples of the quantized network: the first 64 images that it was trained on.

bazel run //examples/digits:calibration -- $PWD/examples/digits/calibration.safetensors
"""

from __future__ import annotations

import sys

from dataset import load_split
from safetensors.torch import save_file

SAMPLES = 64


def main(path: str) -> None:
    """Writes the samples to `path`, each with the shape of the network's input."""
    pictures, _ = load_split()
    save_file({"pixels": pictures.pixels[:SAMPLES].unsqueeze(1).contiguous()}, path)


if __name__ == "__main__":
    main(sys.argv[1])
