# SPDX-License-Identifier: Apache-2.0
"""What a program knows of the layers of a decoder: their state, and their experts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttentionLayer:
    """A layer of attention with a cache of keys and values.

    Attributes:
        heads: heads of keys and values.
        key_size: elements of a key of one head.
        value_size: elements of a value of one head.
        window: positions that a token attends to, with its own; 0 for all up to its own.
    """

    heads: int
    key_size: int
    value_size: int
    window: int


@dataclass(frozen=True)
class ConvolutionLayer:
    """A causal convolution whose state is its operand at the last positions.

    Attributes:
        channels: number of channels.
        width: number of positions.
    """

    channels: int
    width: int


@dataclass(frozen=True)
class RecurrentLayer:
    """A layer that computes its state from that before each token.

    Attributes:
        shape: of the state, without that of a batch.
    """

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Experts:
    """The experts of a mixture.

    Attributes:
        chosen: number of experts that a token chooses.
        features: elements of a token.
    """

    chosen: int
    features: int


Layer = AttentionLayer | ConvolutionLayer | RecurrentLayer
