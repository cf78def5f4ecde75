# SPDX-License-Identifier: Apache-2.0
"""The argument `--trusted`."""

from __future__ import annotations

import argparse


def add_trusted_argument(parser: argparse._ActionsContainer) -> None:
    """Declares the argument."""
    parser.add_argument(
        "--trusted",
        action="store_true",
        help="read the .pt2 with torch's reader, which runs code in the file: for files of trusted authors "
        "that are rejected otherwise",
    )
