# SPDX-License-Identifier: Apache-2.0
"""Models with control flow, and calls that cover all of their paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_rows
from torch.export import Dim

from tests.oracle.core_case import Case, Function, noise

X = noise(3, 4)
ROWS = noise(5, 3, 4, seed=1)


def _case(function: Callable[..., Any], *calls: tuple[Any, ...], dynamic_shapes: Any = None) -> Case:
    if dynamic_shapes is not None:
        dynamic_shapes = {"args": dynamic_shapes}
    return Case(lambda: Function(function), list(calls), dynamic_shapes=dynamic_shapes)


def _branch(x: Tensor, true: Callable[..., Any], false: Callable[..., Any], *operands: Tensor) -> Any:
    return torch.cond(x.sum() > 0, true, false, (x, *operands))


def _times(count: Tensor, x: Tensor, body: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    return while_loop(lambda i, x: i < count, lambda i, x: (i + 1, body(x)), (torch.tensor(0), x))


BOTH = [(X.abs(),), (-X.abs(),)]
COUNTS = [(torch.tensor(n), X) for n in (2, 0, 1, 5)]
ROWS_UP_TO_8 = ({0: Dim("rows", min=1, max=8)},)


COND = {
    "one_result": _case(lambda x: _branch(x, lambda x: x * 2, lambda x: x.exp().sin()), *BOTH),
    "several_results": _case(
        lambda x: _branch(x, lambda x: (x * 2, x.sum(0), x > 0), lambda x: (x - 1, x.amax(0), x < -0.5)),
        *BOTH,
    ),
    "nested_results": _case(
        lambda x: _branch(x, lambda x: {"a": [x * 2], "b": x[0] + 1}, lambda x: {"a": [-x], "b": x[1] * 3}),
        *BOTH,
    ),
    "operand_returned": _case(lambda x: _branch(x, lambda x: x.clone(), lambda x: x * 2), *BOTH),
    "both_return_the_operand": _case(
        lambda x: _branch(x + 0, lambda x: x.clone(), lambda x: x.clone()), *BOTH
    ),
    "constant_returned": _case(lambda x: _branch(x, lambda x: torch.arange(3.0), lambda x: x.sum(1)), *BOTH),
    "same_twice": _case(
        lambda x: _branch(x, lambda x: ((y := x * 2), y.clone(), y + 1), lambda x: (x + 1, x - 1, x.clone())),
        *BOTH,
    ),
    "operand_ignored": _case(lambda x: _branch(x, lambda x, y: x + 1, lambda x, y: x - 1, x * 3), *BOTH),
    "result_unused": _case(
        lambda x: _branch(x, lambda x: (x * 2, x.exp(), x.sum()), lambda x: (-x, x + 1, x.amax()))[1], *BOTH
    ),
    "views_returned": _case(
        lambda x: _branch(x, lambda x: (x * 2).view(4, 3), lambda x: (x - 1).T.contiguous()) + 1, *BOTH
    ),
    "slice_returned": _case(lambda x: _branch(x, lambda x: (x * 2)[1:2], lambda x: (x - 1)[1:2]) * 3, *BOTH),
    "result_is_input_of_another": _case(
        lambda x: _branch(_branch(x, lambda x: x * 2 - 5, lambda x: x - 1), lambda x: x * 3, lambda x: -x),
        *BOTH,
    ),
    "temporaries": _case(
        lambda x: (
            _branch(
                x,
                lambda x: (x @ (x + 1).transpose(0, 1)).softmax(1) @ (x.sin() + x.cos()),
                lambda x: ((x + 1).tanh() * (x - 1).sigmoid()).exp() - x,
            )
            + x.sin()
        ),
        *BOTH,
    ),
    "other_dtypes": _case(
        lambda x: torch.cond(x.any(), lambda x: x.long() * 2, lambda x: x.long() - 1, (x,)),
        (torch.tensor([True, False]),),
        (torch.tensor([False, False]),),
    ),
    "size_compared": _case(
        lambda x: torch.cond(x.shape[0] > 3, lambda x: x * 2, lambda x: x.sin(), (x,)),
        *[(noise(n, 4),) for n in (2, 3, 4, 8)],
        dynamic_shapes=ROWS_UP_TO_8,
    ),
    "size_not_equal": _case(
        lambda x: torch.cond(x.shape[0] != 3, lambda x: x.sum(0), lambda x: x[0] - 1, (x,)),
        *[(noise(n, 4),) for n in (2, 3, 4)],
        dynamic_shapes=ROWS_UP_TO_8,
    ),
    "different_sizes": _case(lambda x: _branch(x, lambda x: x[:2] * 3, lambda x: x + 1).sin(), *BOTH, *BOTH),
    "different_integers": _case(lambda x: _branch(x, lambda x: (x + 1, 3), lambda x: (x - 1, 4)), *BOTH),
    "dynamic": _case(
        lambda x: _branch(x, lambda x: (x * 2, x.sin().view(-1)), lambda x: (x.clone(), (x - 1).view(-1))),
        *[(s * noise(n, 4).abs(),) for n in (2, 8, 1, 5) for s in (1, -1)],
        dynamic_shapes=ROWS_UP_TO_8,
    ),
    "cond_in_cond": _case(
        lambda x: _branch(
            x,
            lambda x: torch.cond(x.amax() > 2, lambda x: x * 2, lambda x: x + 5, (x,)) * 3,
            lambda x: torch.cond(x.amin() < -2, lambda x: x.exp(), lambda x: x.clone(), (x,)),
        ),
        *[(s * X.abs(),) for s in (0.1, 9, -0.1, -9)],
    ),
}

WHILE = {
    "count": _case(lambda n, x: _times(n, x, lambda x: x * 2 + 1), *COUNTS),
    "state_read_late": _case(lambda n, x: _times(n, x, lambda x: x.sin() + x), *COUNTS),
    "state_is_free_early": _case(
        lambda n, x: _times(n, x, lambda x: (x @ x.T).softmax(1) @ x.cos()), *COUNTS
    ),
    "swap": _case(
        lambda n, x: while_loop(
            lambda i, a, b: i < n, lambda i, a, b: (i + 1, b.clone(), a.clone()), (torch.tensor(0), x, x * 2)
        ),
        *COUNTS,
    ),
    "fibonacci": _case(
        lambda n, x: while_loop(
            lambda i, a, b: i < n, lambda i, a, b: (i + 1, b.clone(), a + b), (torch.tensor(0), x, x * 2)
        ),
        *COUNTS,
    ),
    "unchanged_state": _case(
        lambda n, x: while_loop(
            lambda i, a, b: i < n, lambda i, a, b: (i + 1, a + b, b.clone()), (torch.tensor(0), x, x * 2)
        ),
        *COUNTS,
    ),
    "until_value": _case(
        lambda x: while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,)),
        *[(torch.full((2, 3), v),) for v in (1.0, 30.0, 0.01)],
    ),
    "integers": _case(
        lambda x: while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x * 2), (0, x)),
        *[(noise(n, 4),) for n in (2, 1, 6)],
        dynamic_shapes=ROWS_UP_TO_8,
    ),
    "integers_swap": _case(
        lambda x: while_loop(lambda i, j, x: i < 9, lambda i, j, x: (j, i + j, x + 1), (1, 2, x))[2], (X,)
    ),
    "outer_value_read": _case(
        lambda n, x: (lambda y: _times(n, x, lambda x: x * 0.5 + y))(x.exp().sin()), *COUNTS
    ),
    "dynamic": _case(
        lambda x: _times(torch.tensor(3), x, lambda x: x.softmax(1) + x),
        *[(noise(n, 4),) for n in (3, 8, 1)],
        dynamic_shapes=ROWS_UP_TO_8,
    ),
    "cond_in_while": _case(
        lambda n, x: _times(n, x, lambda x: _branch(x, lambda x: x - 2, lambda x: x.sin() + 3)), *COUNTS
    ),
    "while_in_cond": _case(
        lambda x: _branch(
            x,
            lambda x: _times(torch.tensor(3), x, lambda x: x * 2)[1],
            lambda x: while_loop(lambda x: x.sum() < 5, lambda x: (x + 1,), (x,))[0],
        ),
        *BOTH,
    ),
    "while_in_while": _case(
        lambda n, x: _times(n, x, lambda x: _times(n + 1, x, lambda x: x.sin() + 1)[1] * 2), *COUNTS
    ),
}

MAP = {
    "one": _case(lambda xs: map_rows(lambda x: x.sin(), xs), (ROWS,), (-ROWS,)),
    "several": _case(
        lambda xs, y: map_rows(lambda x, y: (x[0] + y, x[1].sum(), x[2] > 0), (xs, xs[:, 0] * 2, xs + 1), y),
        (ROWS, X),
        (-ROWS, X * 2),
    ),
    "row_returned": _case(lambda xs: map_rows(lambda x: (x.clone(), x * 2), xs), (ROWS,)),
    "constant_returned": _case(lambda xs: map_rows(lambda x: torch.arange(3), xs), (ROWS,)),
    "operand_returned": _case(lambda xs, y: map_rows(lambda x, y: (y.clone(), x + y), xs, y), (ROWS, X)),
    "one_row": _case(lambda xs: map_rows(lambda x: x.sin(), xs), (ROWS[:1],)),
    "view_of_the_result": _case(lambda xs: map_rows(lambda x: x.sin(), xs).view(5, 12)[1:3] + 1, (ROWS,)),
    "integers": _case(lambda xs: map_rows(lambda x: x * 2, xs), (torch.arange(6),)),
    "dynamic_rows": _case(
        lambda xs: map_rows(lambda x: (x.softmax(0), x.sum()), xs),
        *[(noise(n, 4),) for n in (3, 8, 1, 2)],
        dynamic_shapes=ROWS_UP_TO_8,
    ),
    "dynamic_inside": _case(
        lambda xs: map_rows(lambda x: x.softmax(1) + 1, xs),
        *[(noise(3, n, 4),) for n in (3, 8, 1, 2)],
        dynamic_shapes=({1: Dim("rows", min=1, max=8)},),
    ),
    "cond_in_map": _case(
        lambda xs: map_rows(lambda x: _branch(x, lambda x: x * 2, lambda x: x.exp()), xs), (ROWS,), (-ROWS,)
    ),
    "map_in_cond": _case(
        lambda xs: torch.cond(
            xs.sum() > 0,
            lambda xs: map_rows(lambda x: x.sin(), xs),
            lambda xs: xs * 2,
            (xs,),
        ),
        (ROWS.abs(),),
        (-ROWS.abs(),),
        (ROWS.abs() * 2,),
    ),
    "map_in_map": _case(lambda xs: map_rows(lambda x: map_rows(lambda y: y.cumsum(0), x) + x, xs), (ROWS,)),
    "map_in_while": _case(
        lambda n, x: _times(n, x, lambda x: map_rows(lambda row: row.softmax(0) + 1, x)), *COUNTS
    ),
}

SCAN = {
    "sum": _case(lambda c, xs: scan(lambda c, x: (c + x, c * x), c, xs), (X, ROWS), (-X, ROWS * 2)),
    "reverse": _case(lambda c, xs: scan(lambda c, x: (c + x, c * x), c, xs, reverse=True), (X, ROWS)),
    "associative": _case(
        lambda xs: associative_scan(lambda a, b: a * b + b, xs, 0, combine_mode="generic"), (ROWS,)
    ),
    "dim_1": _case(lambda c, xs: scan(lambda c, x: (c + x, c * x), c, xs, dim=1), (noise(5, 4), ROWS)),
    "several": _case(
        lambda a, b, xs: scan(
            lambda c, x: ((c[1] * 0.5, c[0] + x[0]), (x[0] - c[0], c[1].sum() + x[1])),
            (a, b),
            (xs, xs[:, 0, 0]),
        ),
        (X, X * 2, ROWS),
        (-X, X, -ROWS),
    ),
    "state_becomes_row": _case(lambda c, xs: scan(lambda c, x: (x.clone(), c + x), c, xs), (X, ROWS)),
    "no_state_change": _case(lambda c, xs: scan(lambda c, x: (c.clone(), c + x), c, xs), (X, ROWS)),
    "swap": _case(
        lambda a, b, xs: scan(lambda c, x: ((c[1].clone(), c[0].clone()), c[0] + x), (a, b), xs),
        (X, X * 2, ROWS),
    ),
    "one_row": _case(lambda c, xs: scan(lambda c, x: (c + x, c * x), c, xs), (X, ROWS[:1])),
    "dynamic_rows": _case(
        lambda c, xs: scan(lambda c, x: (c * 0.5 + x, c * x), c, xs),
        *[(noise(4), noise(n, 4)) for n in (3, 8, 2, 1)],
        dynamic_shapes=(None, *ROWS_UP_TO_8),
    ),
    "dynamic_state": _case(
        lambda c, xs: scan(lambda c, x: ((c @ x).softmax(0), c.sum(1)), c, xs),
        *[(noise(n, 3), noise(5, 3, 3)) for n in (3, 8, 1)],
        dynamic_shapes=(*ROWS_UP_TO_8, None),
    ),
    "scan_in_scan": _case(
        lambda c, xs: scan(lambda c, x: scan(lambda d, y: (d + y, d * y), c, x), c, xs), (noise(4), ROWS)
    ),
    "cond_in_scan": _case(
        lambda c, xs: scan(
            lambda c, x: (_branch(c, lambda c, x: c - x, lambda c, x: x.exp(), x), c + 1), c, xs
        ),
        (X, ROWS),
        (-X, -ROWS),
    ),
    "map_in_scan": _case(
        lambda c, xs: scan(lambda c, x: (c + x, map_rows(lambda row: row * c.sum(), x)), c, xs), (X, ROWS)
    ),
}


class Experts(nn.Module):
    """Weights in branches, one of them tied, one used outside as well."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.gate = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(4, 1)
        self.two.bias = self.one.bias

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x).sum()
        y = torch.cond(gate > 0, lambda x: self.one(x), lambda x: self.two(x) * self.gate.weight.sum(), (x,))
        return torch.nn.functional.layer_norm(y, (6,)) + self.one(x)


class Recurrent(nn.Module):
    """A cell of weights in a scan."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 6)

    def forward(self, xs: Tensor) -> Any:
        def step(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            h = self.cell(x, h)
            return h, h.tanh()

        return scan(step, torch.zeros(3, 6), xs)


class Counter(nn.Module):
    """A buffer is written to before a branch that reads it, and after."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("other", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        before = torch.cond(self.total.sum() > 1, lambda x: x * self.total, lambda x: x + self.other, (x,))
        self.total.add_(x[0].abs())
        after = torch.cond(self.total.sum() > 1, lambda x: x * self.total, lambda x: x + self.other, (x,))
        self.other.copy_(self.total.view(2, 2).view(4) * 2)
        self.total.copy_(after.sum(0))
        return before + after


class Refinement(nn.Module):
    """A loop with weights and a data-dependent end; a buffer counts the iterations."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("rounds", torch.tensor(0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, y = while_loop(
            lambda n, y: torch.logical_and(n < 6, y.abs().sum() > 2),
            lambda n, y: (n + 1, self.layer(y) * 0.8),
            (torch.tensor(0), x),
        )
        self.rounds.add_(n)
        return y, self.rounds.clone()


MODULES = {
    "experts": Case(Experts, [(noise(3, 4),), (-noise(3, 4),), (noise(3, 4, seed=3),)]),
    "recurrent": Case(Recurrent, [(ROWS,), (-ROWS,)]),
    "counter": Case(Counter, [(X,)] * 3),
    "refinement": Case(Refinement, [(X * 3,), (X * 0.01,), (-X,)]),
}
