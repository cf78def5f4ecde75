# SPDX-License-Identifier: Apache-2.0
"""Three arguments of the wrong form."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return x


def build():
    return delegatec.Model(Net, torch.zeros(1), methods={"encode": delegatec.Method("encode", (1.5,))})
