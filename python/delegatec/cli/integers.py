# SPDX-License-Identifier: Apache-2.0
"""Integer arguments of the command line."""

from __future__ import annotations

import argparse
from typing import Final

from delegatec.cli.errors import CommandLineError

# The range of torch.manual_seed.
_SEEDS: Final = (-(2**63), 2**64 - 1)


def count(text: str) -> int:
    """Parses a count."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected an integer of at least 0")
    return value


def check_seed(seed: int) -> None:
    """Raises CommandLineError for a seed that torch does not support."""
    if not _SEEDS[0] <= seed <= _SEEDS[1]:
        raise CommandLineError(f"--seed {seed}: expected {_SEEDS[0]} to {_SEEDS[1]}")
