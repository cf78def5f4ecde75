# SPDX-License-Identifier: Apache-2.0
"""Measures how well a language model predicts a text."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import cross_entropy


def perplexity(model: torch.nn.Module, tokens: torch.Tensor, context: int) -> float:
    """Returns the perplexity per token of ``tokens`` [n] to a causal model, in windows of ``context`` tokens.

    Windows overlap by half: each token but those of the first window has half a context before it.
    """
    total, scored = 0.0, 1  # nothing precedes the first token
    with torch.no_grad():
        for start in range(0, len(tokens), context // 2):
            window = tokens[start : start + context]
            logits = model(window[None]).logits[0]
            new = scored - start  # the window's first token that is not scored yet
            total += cross_entropy(logits[new - 1 : -1], window[new:], reduction="sum").item()
            scored = start + len(window)
            if scored == len(tokens):
                break
    return math.exp(total / (len(tokens) - 1))
