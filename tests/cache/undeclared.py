# SPDX-License-Identifier: Apache-2.0
"""A model that reads files that its target does not declare."""

from __future__ import annotations

from pathlib import Path

import torch

import delegatec


def build() -> delegatec.Model:
    """Builds a model that depends on the machine, and on a file behind the links of a sandbox."""
    files = [Path("/etc/os-release"), Path(__file__).resolve().with_name("BUILD.bazel")]
    value = float(sum(len(file.read_bytes()) for file in files))
    return delegatec.Model(torch.nn.Linear(4, 4), (torch.full((1, 4), value),))
