# SPDX-License-Identifier: Apache-2.0
"""Mistakes in datasets and metrics, and a program that is not accurate enough."""

from __future__ import annotations

from typing import Any, Final

import torch
from mistake import Mistake, run, usage
from safetensors.torch import save

_COMMAND: Final = "accuracy --label=//pkg:net --pte=good.pte --import-path=."
_TOP1: Final = "def top1(outputs, label):\n    return float(label)\n"


def _accuracy(
    does: str,
    code: str,
    *words: str,
    flags: str = "--metric=net_metrics:top1",
    metric: str = _TOP1,
    labels: str = "labels",
    dtype: torch.dtype = torch.float32,
    **more: Any,
) -> Mistake:
    """A dataset of two samples and a metric that `accuracy` refuses, or whose limit it misses."""
    tensors = {"0": torch.ones(2, 2, 3, dtype=dtype), labels: torch.tensor([0, 1])}
    files = {"net.safetensors": save(tensors), "net_metrics.py": metric}
    command = f"{_COMMAND} {flags} --dataset=net.safetensors"
    return run(does, code, *words, command=command, files=files, **more)


ACCURACY: Final = (
    _accuracy(
        "ships a program that is worse than its floor",
        "DC520",
        "net_metrics:top1 is 0.5 over 2 samples",
        "at least 0.9",
        flags="--metric=net_metrics:top1 --floor=0.9",
    ),
    _accuracy(
        "misspells a metric",
        "DC521",
        "module 'net_metrics' has no attribute 'top_1'",
        "did you mean 'top1'?",
        flags="--metric=net_metrics:top_1",
    ),
    _accuracy(
        "returns the logits as a metric",
        "DC521",
        "returns a Tensor of [2, 3] for the program, sample 0",
        metric="def top1(outputs, label):\n    return outputs\n",
    ),
    _accuracy(
        "names a key that the label does not have",
        "DC521",
        "raises IndexError",
        "at net_metrics.py:2 in top1",
        metric="def top1(outputs, label):\n    return outputs[0] == label['digit']\n",
    ),
    _accuracy(
        "names the labels of a dataset differently",
        "DC521",
        "dataset net.safetensors: it has the tensors 0, label",
        labels="label",
    ),
    _accuracy(
        "has a dataset in float64",
        "DC504",
        "the program, sample 0: input 0 is float64[2, 3]",
        "float32[2, 3]",
        dtype=torch.float64,
    ),
    run(
        "passes a program as the dataset",
        "DC521",
        "cannot read dataset good.pte",
        command=f"{_COMMAND} --metric=net_metrics:top1 --dataset=good.pte",
        files={"net_metrics.py": _TOP1},
    ),
    usage(
        "limits the loss without a baseline",
        "--maximum-loss has no effect without --baseline",
        command=f"{_COMMAND} --metric=a:b --dataset-entry=a:c --maximum-loss=0.1",
    ),
)
TABLE: Final = {"Accuracy": ACCURACY}
