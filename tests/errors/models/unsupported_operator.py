# SPDX-License-Identifier: Apache-2.0
"""Two operators without a kernel in the runtime, on separate lines."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        factor = torch.linalg.qr(x).Q
        values = torch.frexp(x).mantissa
        return factor, values


def build():
    return delegatec.Model(Net(), (torch.eye(3),))
