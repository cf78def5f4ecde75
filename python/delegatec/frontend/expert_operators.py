# SPDX-License-Identifier: Apache-2.0
"""The products of transformers' mixtures of experts in terms of torch's operators, for the time of an export.

The exported program has no operators of transformers, which a reader of the file would need. transformers is
not imported here: without it, there is nothing to replace.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final
from unittest.mock import patch

import torch
from torch import Tensor

from delegatec.edge.legalize.rules.grouped import grouped_product

_OPERATOR: Final = "grouped_mm_fallback"


@contextlib.contextmanager
def expert_operators_replaced() -> Iterator[None]:
    """Replaces the operator of transformers, if the model has imported it."""
    if "transformers" not in sys.modules or not hasattr(torch.ops.transformers, _OPERATOR):
        yield
        return
    with patch.object(torch.ops.transformers, _OPERATOR, _product):
        yield


def _product(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return grouped_product(input, weight, offs)
