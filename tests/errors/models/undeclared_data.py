# SPDX-License-Identifier: Apache-2.0
"""Asks for a data file that is not declared."""

import torch

import delegatec


def build():
    module = torch.nn.Linear(4, 2)
    delegatec.load_checkpoint(module, "linear.safetensors")
    return delegatec.Model(module, (torch.ones(1, 4),))
