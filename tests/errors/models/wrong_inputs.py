# SPDX-License-Identifier: Apache-2.0
"""Inputs that programs do not support."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, spectrum, image, masks):
        return spectrum.abs() + image + masks["first"]


def build():
    return delegatec.Model(
        Net(),
        (torch.zeros(2, dtype=torch.complex64), object(), {"first": torch.zeros(2, device="meta")}),
    )
