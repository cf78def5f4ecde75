# SPDX-License-Identifier: Apache-2.0
"""Arguments of a metric, and of the dataset that it is computed over."""

from __future__ import annotations

import argparse
import math


def add_metric_arguments(parser: argparse._ActionsContainer, *, is_required: bool = False) -> None:
    """Declares the arguments.

    Args:
        parser: receives them.
        is_required: whether a metric and a dataset must be given.
    """
    samples = parser.add_mutually_exclusive_group(required=is_required)
    samples.add_argument(
        "--dataset",
        default="",
        metavar="IN.safetensors",
        help='a tensor for each input, "0", "1", ..., and "labels"; the first dimension is that of samples',
    )
    samples.add_argument(
        "--dataset-entry",
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="an iterable of pairs (inputs, label), or a function that returns one",
    )
    parser.add_argument(
        "--metric",
        required=is_required,
        default="",
        metavar="MODULE:ATTRIBUTE",
        help="a function of (outputs, label) that returns a number, more for better outputs",
    )
    parser.add_argument(
        "--metric-over",
        choices=("sample", "dataset"),
        default="sample",
        help="sample: the mean of the numbers; dataset: the function takes lists, once (default: sample)",
    )


def finite(text: str) -> float:
    """Returns a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text}: expected a finite number")
    return value


def loss(text: str) -> float:
    """Returns a limit of a loss."""
    value = finite(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected a number of at least 0")
    return value
