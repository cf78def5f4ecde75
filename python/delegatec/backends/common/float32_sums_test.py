# SPDX-License-Identifier: Apache-2.0
"""Operators that stay in float32 in a float16 program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from delegatec.backends.common.precision import to_bfloat16, to_float16
from delegatec.edge.arguments import short_name
from delegatec.edge.interpret import interpret
from delegatec.edge.passes.pass_manager import verify_after
from delegatec.edge.testing import edge

X = torch.tensor([[300.0, -400.0, 20.0, 1000.0], [1e-4, -2e-4, 3e-4, 0.0]])
COUNTS = torch.tensor([[2**11 + 1, 2**11 + 1, 1, 1]])

CASES: dict[str, tuple[Callable[..., torch.Tensor], torch.Tensor, str]] = {
    "a norm": (
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-8),
        X,
        "pow mean add rsqrt",
    ),
    "a power as the root": (
        lambda x: x * ((x * x).sum(-1, True) / 4 + 1e-8) ** -0.5,
        X,
        "mul sum div add pow",
    ),
    "a scaled sum": (lambda x: torch.sqrt(x.sum(-1) * 2.0), X.abs(), "sum mul sqrt"),
    "a root of something else": (lambda x: torch.sqrt((x.sum(-1) * x[:, 0]).abs()), X.abs() / 100, "sum"),
    "integers": (lambda x: x.to(torch.float32).mean(-1), COUNTS, "mean"),
    "integers, which are added as such": (lambda x: x.to(torch.float32).sum(-1), COUNTS, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_powers_and_roots(name: str) -> None:
    function, x, expected = CASES[name]
    program = edge(function, x)
    assert to_float16(program)
    program.graph.eliminate_dead_code()
    verify_after(name, program, True)
    wide = [
        str(node.target).split(".")[1]
        for node in program.graph.nodes
        if node.op == "call_function"
        and short_name(node.meta["val"].dtype) == "float32"
        and node.target is not torch.ops.aten._to_copy.default
    ]
    assert " ".join(wide) == expected
    (result,) = interpret(program, [x])
    torch.testing.assert_close(result, function(x), rtol=2e-3, atol=1e-3)


def test_bfloat16() -> None:
    """Its range is that of float32: epsilons are not raised."""
    program = edge(lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-12).rsqrt(), X)
    assert to_bfloat16(program)
    program.graph.eliminate_dead_code()
    wide = {
        str(node.target).split(".")[1]: node.args
        for node in program.graph.nodes
        if node.op == "call_function" and node.meta["val"].dtype == torch.float32
    }
    assert {"pow", "mean", "add", "rsqrt"} <= {*wide} and wide["add"][1] == 1e-12
