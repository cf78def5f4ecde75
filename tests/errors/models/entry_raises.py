# SPDX-License-Identifier: Apache-2.0
"""An entry that raises, in a function that it calls."""

import torch


def _head(width):
    return torch.nn.Linear(width, -1)


def build():
    return _head(4)
