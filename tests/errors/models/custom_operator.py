# SPDX-License-Identifier: Apache-2.0
"""An operator of a library that is not there where the program is lowered."""

import torch

import delegatec


@torch.library.custom_op("mylib::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def forward(self, q):
        return twice(q) + 1


def build():
    return delegatec.Model(Net(), (torch.randn(1, 2, 16, 16),))
