# SPDX-License-Identifier: Apache-2.0
"""Two methods, each with a different error."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return x if x.max() > 1 else -x

    def encode(self, x):
        return torch.nn.functional.dropout(x)


def build():
    example = (torch.ones(3),)
    return delegatec.Model(Net(), example, methods={"encode": delegatec.Method("encode", example)})
