# SPDX-License-Identifier: Apache-2.0
"""Operators of the runtime without a counterpart in ATen, as targets of calls in private programs."""

from __future__ import annotations

from typing import Any, Final

import torch

_SCHEMAS: Final = (
    "linear_q8csw(Tensor x, Tensor weight, Tensor scales, Tensor? bias) -> Tensor",
    "linear_q4gsw(Tensor x, Tensor weight, Tensor scales, int group_size, Tensor? bias) -> Tensor",
    "embedding_q4gsw(Tensor weight, Tensor scales, int group_size, Tensor indices, bool is_linear) -> Tensor",
)

_LIBRARY: Final[Any] = torch.library.Library("delegatec_vulkan", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in _SCHEMAS:
    _LIBRARY.define(_schema)

RUNTIME: Final = torch.ops.delegatec_vulkan
