# SPDX-License-Identifier: Apache-2.0
"""A layer whose weights torchao quantizes."""

import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

import delegatec


def build() -> delegatec.Model:
    module = torch.nn.Sequential(torch.nn.Linear(64, 32)).eval()
    quantize_(module, Int8WeightOnlyConfig())
    return delegatec.Model(module, (torch.rand(1, 64),))
