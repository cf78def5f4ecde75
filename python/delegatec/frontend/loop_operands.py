# SPDX-License-Identifier: Apache-2.0
"""Initial states of scans that are one tensor, such as the same zeros, or that the body reads as well.

torch.export knows the inputs of a loop's body by the identity of their operands: two that are one tensor
become one input, and the states one state.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor

_CALL: Final = "_maybe_compile_and_run_fn"
"""The function of torch's module by which a scan receives its operands, flattened."""


@contextlib.contextmanager
def initial_states_copied() -> Iterator[None]:
    """Copies what scans start with, for the time of an export."""
    # the package has a function of this name
    module = sys.modules[torch._higher_order_ops.scan.__module__]
    with patch.object(module, _CALL, _of_copies(getattr(module, _CALL))):
        yield


def _of_copies(original: Callable[..., Any]) -> Callable[..., Any]:
    def function(call: Any, combine: Any, initial: Sequence[Tensor], rows: Sequence[Tensor]) -> Any:
        return original(call, combine, [each.clone() for each in initial], rows)

    return function
