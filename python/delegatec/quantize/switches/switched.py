# SPDX-License-Identifier: Apache-2.0
"""A quantized model with switches: its outputs for any choice of layers in float."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from delegatec.quantize.switches.units import Unit

Leaves = list[Any]


@dataclass(frozen=True)
class Source:
    """A source of error: the weights and the inner values of one layer, or a value between layers.

    Attributes:
        units: indices of the layers that must all be in float for it to end.
    """

    units: frozenset[int]


class Switched(Protocol):
    """A quantized model with switches."""

    @property
    def units(self) -> Sequence[Unit]:
        """The layers."""
        ...

    @property
    def sources(self) -> Sequence[Source]:
        """The sources of error."""
        ...

    @property
    def fixed(self) -> frozenset[int]:
        """Indices of the layers that are always in integers."""
        ...

    @property
    def operations(self) -> int:
        """Operations of the whole model."""
        ...

    def outputs(self, inputs: Sequence[Any], in_float: Collection[int]) -> Leaves:
        """Returns the outputs of a call.

        Args:
            inputs: those of the method, in float.
            in_float: indices of layers that are in float.
        """
        ...

    def disturbed(self, samples: Sequence[Sequence[Any]]) -> Iterator[list[Leaves]]:
        """Yields the outputs of samples in float, and then with each source of error alone, in order."""
        ...
