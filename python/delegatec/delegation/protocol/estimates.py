# SPDX-License-Identifier: Apache-2.0
"""Estimates of a delegate's speed and memory, by the compiler of its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerEstimate:
    """The estimates of one operation of a delegate.

    Attributes:
        name: its name; its entry in the debug map, if it has one.
        operation: its kind.
        figures: name of each estimate -> value.
    """

    name: str
    operation: str
    figures: Mapping[str, int]


@dataclass(frozen=True)
class Estimates:
    """The estimates of a delegate.

    Attributes:
        source: the program that estimates, and its version.
        totals: name of each estimate, with its unit, such as "sram_bytes" -> value.
        layers: the operations, in execution order.
    """

    source: str
    totals: Mapping[str, int]
    layers: Sequence[LayerEstimate]
