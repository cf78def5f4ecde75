# SPDX-License-Identifier: Apache-2.0
"""Comparison of a program's predictions with those of the float model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Divergence:
    """How two models predict the tokens of a text.

    Attributes:
        tokens: number of predictions.
        mean: mean of the Kullback-Leibler divergence of the program's predictions from the model's, in nats.
        agreement: share of the predictions whose most probable token is the same.
        snr_db: ratio of signal and error of the logits, in dB, without their mean, which has no effect.
    """

    tokens: int
    mean: float
    agreement: float
    snr_db: float


def divergence(model: Tensor, program: Tensor) -> Divergence:
    """Compares logits, float32 [tokens, vocabulary]; those of tokens that cannot follow are -inf."""
    wanted, found = (functional.log_softmax(each.double(), -1) for each in (model, program))
    is_possible = model > -torch.inf
    each = torch.where(is_possible, wanted.exp() * (wanted - found), 0.0).sum(-1)
    centered = [_centered(logits.double(), is_possible) for logits in (model, program)]
    signal, error = centered[0].square().sum(), (centered[1] - centered[0]).square().sum()
    return Divergence(
        tokens=len(model),
        mean=float(each.mean()),
        agreement=float((model.argmax(-1) == program.argmax(-1)).double().mean()),
        snr_db=10 * math.log10(float(signal) / float(error)) if error else math.inf,
    )


def _centered(logits: Tensor, is_possible: Tensor) -> Tensor:
    """Returns the logits of possible tokens without their mean, and 0 for the others."""
    kept = torch.where(is_possible, logits, 0.0)
    mean = kept.sum(-1, keepdim=True) / is_possible.sum(-1, keepdim=True)
    return torch.where(is_possible, kept - mean, 0.0)


def perplexity(logits: Tensor, tokens: Tensor) -> float:
    """Returns the perplexity of tokens, int64 [n], by the logits before each, float32 [n, vocabulary]."""
    return math.exp(float(functional.cross_entropy(logits.double(), tokens)))
