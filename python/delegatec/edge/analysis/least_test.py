# SPDX-License-Identifier: Apache-2.0
"""Lower bounds hold in eager mode, and are positive where an epsilon is added."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.least import LeastValues
from delegatec.edge.testing import Function, edge

X = torch.linspace(-3, 3, 12).view(3, 4)
BOUNDS: list[tuple[Callable[[Tensor], Tensor], float]] = [
    (lambda x: x, -math.inf),
    (lambda x: x * x + 0.5, 0.5),
    (lambda x: x.pow(2).mean(1, keepdim=True).expand(3, 4) + 1e-5, 1e-5),
    (lambda x: (x.pow(2).sum() + 4).sqrt(), 2.0),
    (lambda x: x.var(1) * 2 + x.std(1) / 2, 0.0),
    (lambda x: (x.abs() + 1) * (x.exp() + 2), 2.0),
    (lambda x: x.norm(dim=1) - 1, -math.inf),
    (lambda x: x.pow(3) + 1, -math.inf),
    (lambda x: torch.add(x * x, x * x, alpha=-1), -math.inf),
    (lambda x: (x * -x) + 1, -math.inf),
    (lambda x: torch.cat([x.abs(), x]), -math.inf),
]


def test_bounds() -> None:
    program = edge(Function(lambda x: [function(x) for function, _ in BOUNDS]), X, passes=())
    results: Any = program.output_node().args[0]
    least = LeastValues(Facts(program.fixed_constants()))
    for index, ((function, bound), result) in enumerate(zip(BOUNDS, results, strict=True)):
        assert math.isclose(least.of(result), bound, rel_tol=1e-6), index
        assert float(function(X).min()) >= bound, index
