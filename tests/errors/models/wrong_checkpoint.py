# SPDX-License-Identifier: Apache-2.0
"""A module of another size than its checkpoint."""

import torch

import delegatec


def build():
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    delegatec.load_checkpoint(module, "checkpoint.safetensors")
    return delegatec.Model(module, (torch.ones(1, 4),))
