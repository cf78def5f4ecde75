# SPDX-License-Identifier: Apache-2.0
"""Methods of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Method:
    """One way to call a module.

    Attributes:
        function: name of the module's attribute that is called, such as "encode".
        example_inputs: positional arguments: CPU tensors of the dtypes `INPUT_DTYPES`, scalars, or tuples,
            lists and dicts of these. Shapes are fixed unless `dynamic_shapes` says otherwise; values matter
            only to verification. Scalars, strings and None are specialized.
        example_kwargs: keyword arguments of the same kinds.
        dynamic_shapes: as in `torch.export.export`. Each dynamic dimension needs an upper bound:
            `torch.export.Dim("batch", min=1, max=16)`. Delegates have no empty inputs, even if `min` is not
            given: their results are undefined then.
    """

    function: str
    example_inputs: tuple[Any, ...]
    example_kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Mapping[str, Any] | tuple[Any, ...] | list[Any] | None = None

    def of(self, module: torch.nn.Module) -> Callable[..., Any]:
        """Returns what users call: the module itself, with its hooks, if the function is `forward`."""
        return module if self.function == "forward" else getattr(module, self.function)

    def with_own_inputs(self) -> Method:
        """Returns this method with copies of its example tensors.

        torch.export identifies tensors: one that is passed twice, or is a parameter of the module as well,
        would be one input, or none.
        """
        args, kwargs = pytree.tree_map(_copy, (self.example_inputs, dict(self.example_kwargs or {})))
        return replace(self, example_inputs=args, example_kwargs=kwargs)


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
