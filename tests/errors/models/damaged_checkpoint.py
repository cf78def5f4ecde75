# SPDX-License-Identifier: Apache-2.0
"""Loads a checkpoint that is not one."""

import torch

import delegatec


def build():
    module = torch.nn.Linear(4, 2)
    delegatec.load_checkpoint(module, "damaged.pt")
    return delegatec.Model(module, (torch.ones(1, 4),))
