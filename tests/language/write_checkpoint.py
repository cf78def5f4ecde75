# SPDX-License-Identifier: Apache-2.0
"""Writes the folder of a small checkpoint with random weights, and inputs or adapters of its model.

Usage: write_checkpoint.py FAMILY FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from delegatec.language import testing as text
from delegatec.language.lora.testing import write_adapter
from delegatec.language.speech import testing as speech
from delegatec.language.vision import testing as vision

_INPUTS = 2
# Family -> layers that each adapter of its model changes.
_ADAPTERS = {"Qwen3": (("q_proj", "down_proj"), ("q_proj",))}


def main() -> None:
    """Runs the command line."""
    family, folder = sys.argv[1], Path(sys.argv[2])
    if family in vision.FAMILIES:
        vision.write_family(family, folder)
        for seed in range(_INPUTS):
            vision.write_image(folder / f"image_{seed}.ppm", vision.random_image(seed))
    elif family in text.FAMILIES:
        network = text.write_family(family, folder, vocab_size=text.LETTERS, eos_token_id=0)
        text.write_tokenizer(folder, text.LETTERS)
        for seed, modules in enumerate(_ADAPTERS.get(family, ())):
            write_adapter(folder / f"adapter_{seed}", network, modules, rank=4 - seed, seed=seed)
    else:
        speech.write_family(family, folder)
        for seed in range(_INPUTS):
            speech.write_wave(folder / f"recording_{seed}.wav", speech.sound(1.0 + seed / 2, seed))


if __name__ == "__main__":
    main()
