# SPDX-License-Identifier: Apache-2.0
import torch

import delegatec


def build() -> delegatec.Model:
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return delegatec.Model(module.eval(), (torch.rand(1, 8),))
