# SPDX-License-Identifier: Apache-2.0
"""The decompositions of an operator are in one file; these tables have the reasons for others.

Rewrites of a backend, and of the runtime's kernels, are for defects, limits and formats; those of
`edge/channels_last`, for targets whose images have the channels last.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

import torch
from torch._ops import OpOverload

from delegatec.edge.legalize import rules
from delegatec.edge.legalize.rule import Rewrite

# Files whose rules repeat a call, of any operator, on other operands.
REPEATING: Final = {
    "integer_moves": "integers that may exceed 2^24 are moved in parts that float32 represents exactly",
    "integers_by_floats": "targets without integers compute them in floating point",
    "promotion": "targets do not promote: operands are converted to one dtype",
    "ranks": "targets limit the number of dimensions",
    "symbolic_scalars": "targets have no scalars that depend on sizes",
}
# Parts of a family, whose file would have more than 300 lines.
PARTS: Final = {"convolution_in_parts": "convolution", "transposed_convolution": "convolution"}
# Operators with decompositions in other files, and why.
ELSEWHERE: Final = {
    ("comparison", torch.ops.aten._to_copy.default): "a conversion to bool compares with zero by order",
}


def _tables(module: ModuleType) -> Iterator[OpOverload]:
    """Yields the operators in the tables and the alternatives of a module."""
    for name, value in vars(module).items():
        if not name.isupper() or name.startswith("_"):
            continue
        if isinstance(value, Mapping):
            yield from (each for each in value if isinstance(each, OpOverload))
        elif isinstance(value, Rewrite | tuple):
            several: Any = value if isinstance(value, tuple) else (value,)
            yield from (each.target for each in several if isinstance(each, Rewrite))


def test_an_operator_has_one_file() -> None:
    names = [each.name for each in pkgutil.iter_modules(rules.__path__) if not each.name.endswith("_test")]
    files = defaultdict[OpOverload, set[str]](set)
    for name in sorted({*names} - {*REPEATING}):
        for operator in _tables(importlib.import_module(f"{rules.__name__}.{name}")):
            if (name, operator) not in ELSEWHERE:
                files[operator].add(PARTS.get(name, name))
    assert len(files) > 300
    several = {str(operator): sorted(found) for operator, found in files.items() if len(found) > 1}
    assert not several, f"operators with decompositions in several files, without a reason: {several}"
