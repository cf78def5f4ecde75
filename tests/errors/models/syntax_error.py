# SPDX-License-Identifier: Apache-2.0
"""A line that is no Python."""

import torch


class Net(torch.nn.Module)
    pass
