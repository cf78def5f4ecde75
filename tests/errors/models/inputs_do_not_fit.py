# SPDX-License-Identifier: Apache-2.0
"""The module does not run with its example inputs."""

import torch

import delegatec


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.classifier = torch.nn.Linear(8, 2)

    def forward(self, features):
        return self.classifier(features)


def build():
    return delegatec.Model(Net(), (torch.zeros(1, 9),))
