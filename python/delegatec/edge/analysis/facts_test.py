# SPDX-License-Identifier: Apache-2.0
"""Facts hold in eager mode, are as precise as needed, and take linear time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.interval import UNKNOWN, Interval
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, edge
from delegatec.edge.testing.synthetic import Synthetic

aten = torch.ops.aten
X = torch.tensor([[3, -4, 0], [7, 2, -9]])
REAL = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
FLAGS = torch.tensor([[True, False, True]])
LOWEST = torch.finfo(torch.float32).min
INT64 = (torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max)


def _facts(program: EdgeProgram) -> Interval:
    """Returns the interval of the last result of a program."""
    results: Any = program.output_node().args[0]
    return Facts(program.fixed_constants()).of(results[-1])


def _of(function: Callable[..., Any], *inputs: torch.Tensor, **buffers: torch.Tensor) -> Interval:
    return _facts(edge(Function(function, **buffers), *inputs, passes=()))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(lambda x, t: x + t, INT64, id="an input"),
        pytest.param(lambda x, t: x[:, :2].clamp(-1, 5).reshape(-1), (-1, 5), id="clamp"),
        pytest.param(lambda x, t: x.clamp(min=0), (0, INT64[1]), id="clamp at one end"),
        pytest.param(lambda x, t: (x.clamp(-3, 5) - 1).relu(), (0, 4), id="relu"),
        pytest.param(lambda x, t: (x.clamp(-3, 5) - 1).abs(), (0, 4), id="abs"),
        pytest.param(lambda x, t: (x.clamp(-3, 5) - 6).abs(), (1, 9), id="abs of negative numbers"),
        pytest.param(lambda x, t: x.clamp(0, 2) + t, (1, 8), id="constant"),
        pytest.param(lambda x, t: 3 - x.clamp(0, 2) * t, (-9, 3), id="product"),
        pytest.param(lambda x, t: x.clamp(-1, 2) - t, (-7, 1), id="difference"),
        pytest.param(lambda x, t: torch.sub(x.clamp(-1, 2), t, alpha=3), (-19, -1), id="alpha"),
        pytest.param(lambda x, t: -x.clamp(-1, 2), (-2, 1), id="negative"),
        pytest.param(lambda x, t: x.float().remainder(5).long(), (0, 5), id="remainder"),
        pytest.param(lambda x, t: (x.clamp(-4, 9) / t).long(), (-4, 9), id="quotient"),
        pytest.param(lambda x, t: (x.clamp(-4, 9) / (t - 1)).long(), INT64, id="quotient by zero"),
        pytest.param(lambda x, t: torch.cat([x.clamp(0, 1)[0], t]), (0, 6), id="cat"),
        pytest.param(lambda x, t: torch.where(x > 0, t, -1), (-1, 6), id="where"),
        pytest.param(lambda x, t: torch.maximum(x.clamp(-4, 9), t), (1, 9), id="maximum"),
        pytest.param(lambda x, t: torch.minimum(x.clamp(-4, 9), t), (-4, 6), id="minimum"),
        pytest.param(lambda x, t: (x > 0).long(), (0, 1), id="bool"),
        pytest.param(lambda x, t: (x > 0).long().sum(-1), (0, 6), id="sum"),
        pytest.param(lambda x, t: (x > 0).float().sum(-1).long(), (0, 6), id="sum of floats"),
        pytest.param(lambda x, t: (x > 0).long().cumsum(-1) - 1, (-1, 5), id="cumsum"),
        pytest.param(lambda x, t: x.float().argmax(-1), (0, 2), id="argmax"),
        pytest.param(lambda x, t: x.float().argmax(), (0, 5), id="argmax of all"),
        pytest.param(lambda x, t: x.topk(2).indices, (0, 2), id="indices of topk"),
        pytest.param(lambda x, t: x.clamp(0, 4).topk(2).values, (0, 4), id="values of topk"),
        pytest.param(lambda x, t: x.clamp(0, 4).split(1)[1], (0, 4), id="split"),
        pytest.param(lambda x, t: torch.aminmax(x).max, INT64, id="not seen through"),
        pytest.param(lambda x, t: (x.float().clamp(-1.5, 2.5)).long(), (-1, 2), id="conversion"),
        pytest.param(lambda x, t: x.float().clamp(-1.5, 2.5).round().long(), (-2, 2), id="round"),
        pytest.param(lambda x, t: x.clamp(0, 2**62) * t, INT64, id="overflow"),
        pytest.param(lambda x, t: x.char() * 2, (-128, 127), id="int8"),
        pytest.param(lambda x, t: x * 0, (0, 0), id="times zero"),
        pytest.param(lambda x, t: torch.arange(9, 1, -2) + 0, (3, 9), id="arange"),
        pytest.param(lambda x, t: t.index_put((x[0].clamp(0, 2),), t), (1, 6), id="index_put"),
        pytest.param(
            lambda x, t: t.index_put((x[0].clamp(0, 0),), t, accumulate=True), INT64, id="index_put that adds"
        ),
    ],
)
def test_integers(function: Callable[..., Any], expected: tuple[float, float]) -> None:
    found = _of(lambda self, x: function(x, self.table), X, table=torch.tensor([4, 1, 6]))
    assert found == (*expected, True)
    values = function(X, torch.tensor([4, 1, 6]))
    assert found.low <= values.min().item() and values.max().item() <= found.high


def test_dynamic_sizes_are_not_counted() -> None:
    dynamic = ({0: torch.export.Dim("rows", min=2, max=9)},)
    for function in (lambda x: (x > 0).long().sum(0), lambda x: x.argmax(0)):
        assert _facts(edge(function, X, dynamic_shapes=dynamic))[:2] == INT64


@pytest.mark.parametrize("name", ["gelu", "hardswish"])
def test_activations_have_a_least_value(name: str) -> None:
    function = getattr(torch.nn.functional, name)
    x = torch.linspace(-9, 3, 10_001)
    preserved = [getattr(aten, name).default]
    found = _facts(edge(lambda x: function(x.clamp(-9, 3)), x, preserve=preserved, passes=()))
    assert found.low <= function(x).min() < found.low + 1e-3 and found.high == 3


def test_quantized_values() -> None:
    def simulated(x: torch.Tensor, *parameters: Any) -> Any:
        calls = torch.ops.quantized_decomposed
        return calls.dequantize_per_tensor(calls.quantize_per_tensor(x, *parameters), *parameters)

    assert _of(lambda x: simulated(x, 0.5, 3, -127, 127, torch.int8), REAL) == (-65, 62, False)
    assert _of(lambda x: simulated(x, 0.25, 128, 0, 255, torch.uint8), REAL) == (-32, 31.75, False)
    assert _of(lambda x: simulated(x.clamp(-9.1, 3.1), 0.5, 3, -127, 127, torch.int8), REAL)[:2] == (
        -9,
        3,
    )
    assert _of(lambda x: simulated(x.clamp(-99, -90), 0.5, 3, -127, 127, torch.int8), REAL)[:2] == (
        -65,
        -65,
    )
    assert _of(lambda x: simulated(x.clamp(90, 99), 0.5, 3, -127, 127, torch.int8), REAL)[:2] == (62, 62)


@pytest.mark.parametrize(
    ("function", "width"),
    [
        (lambda x: torch.sigmoid(x) * 3 - 1, 3.0),
        (lambda x: x.softmax(0)[:, None].expand(2, 4, 3) * -2.0, 2.0),
        (lambda x: 30 * torch.tanh(x / 30.0), 60.0),
        (lambda x: x.clamp(-1, 0.5) + torch.cos(x), 3.5),
        (lambda x: torch.nn.functional.hardtanh(x, -2, 1) / 2, 1.5),
        (lambda x: x.clamp(max=3), math.inf),
        (lambda x: x.sigmoid() / 0, math.inf),
    ],
)
def test_width(function: Callable[..., Any], width: float) -> None:
    assert _of(lambda x: function(x), REAL).width == width


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, p, i: i * 2, id="integers"),
        pytest.param(lambda x, p, i: i.to(torch.float32), id="converted integers"),
        pytest.param(lambda x, p, i: torch.where(p, 0.0, LOWEST), id="where"),
        pytest.param(lambda x, p, i: torch.where(p, torch.tanh(x), -1e4), id="where of bounded"),
        pytest.param(lambda x, p, i: torch.zeros(2, 3).masked_fill(p, -1e9), id="masked_fill"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float32)) * LOWEST, id="scaled complement"),
        pytest.param(lambda x, p, i: (1 - p[:, None].expand(1, 2, 3).float()) * -10000, id="of a view"),
        pytest.param(lambda x, p, i: torch.sigmoid(x)[:, None].permute(0, 2, 1)[..., 0], id="views"),
        pytest.param(lambda x, p, i: torch.full((2,), -5.0).to(torch.float64), id="wider"),
        pytest.param(lambda x, p, i: torch.full((2,), -5.0).to(torch.float16), id="small enough"),
        pytest.param(lambda x, p, i: (1 - i.clamp(0, 2).float()) * -1e9, id="of small integers"),
        pytest.param(lambda x, p, i: torch.sin(x), id="sin"),
    ],
)
def test_never_minus_infinity(function: Callable[..., Any]) -> None:
    assert _of(lambda *inputs: function(*inputs), REAL, FLAGS, torch.arange(3)).low > -math.inf


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, p, i: x * 1, id="an input"),
        pytest.param(lambda x, p, i: torch.log(torch.sigmoid(x)), id="not seen through"),
        pytest.param(lambda x, p, i: torch.where(p, 0.0, -torch.inf), id="where with infinity"),
        pytest.param(lambda x, p, i: torch.where(p, x, 0.0), id="where with an input"),
        pytest.param(lambda x, p, i: torch.zeros(2, 3).masked_fill(p, -torch.inf), id="masked_fill"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float32)) * -torch.inf, id="scaled by infinity"),
        pytest.param(lambda x, p, i: (2 - p.to(torch.float32)) * LOWEST, id="not of zeros and ones"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float32)) * x, id="scaled by an input"),
        pytest.param(lambda x, p, i: (1.0 - p.to(torch.float16)) * -1e9, id="a factor beyond the dtype"),
        pytest.param(lambda x, p, i: torch.full((2,), -1e9).to(torch.float16), id="narrower"),
        pytest.param(lambda x, p, i: i.to(torch.float16), id="integers in a narrow dtype"),
        pytest.param(lambda x, p, i: torch.full((2,), torch.nan), id="nan"),
        pytest.param(lambda x, p, i: x.clamp(-9, 9).to(torch.float8_e4m3fn), id="float8"),
    ],
)
def test_may_be_minus_infinity(function: Callable[..., Any]) -> None:
    assert _of(lambda *inputs: function(*inputs), REAL, FLAGS, torch.arange(3)).low == -math.inf


@pytest.mark.parametrize(
    ("constant", "low"),
    [
        (torch.tensor([-1e30, 5.0], dtype=torch.float64), -1e30),
        (torch.tensor([torch.inf, 0.0]), 0.0),
        (torch.zeros(0), 0.0),
        (torch.tensor([-torch.inf, 0.0]), -math.inf),
        (torch.tensor([torch.nan, 0.0]), -math.inf),
        (torch.tensor([True, True]), 1),
        (torch.tensor([3, 4], dtype=torch.uint16), 0),
    ],
    ids=str,
)
def test_constants(constant: torch.Tensor, low: float) -> None:
    assert _of(lambda self, x: (x + 1, self.c[None].expand(2, -1)), REAL, c=constant).low == low


def test_a_buffer_that_is_written_to_may_become_anything() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        seen: torch.Tensor = self.c[None].expand(2, -1)
        self.c.copy_(x[0])
        return seen

    assert _of(model, REAL, c=torch.zeros(3)) == UNKNOWN


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, -0.1, 1e-7, 2049.5, 65504.0, 65519.0, -1e6, 1e-46, 2**63 - 1, 1e39])
def test_bounds_are_rounded_outwards(dtype: torch.dtype, value: float) -> None:
    """No value of the dtype lies between a bound and the value that it bounds."""
    low, high, _ = _of(lambda x: (x, torch.full((), value, dtype=dtype))[1] + 0, REAL)
    for bound, end in ((low, -math.inf), (high, math.inf)):
        held = torch.tensor(bound, dtype=dtype)
        assert float(held) == bound
        assert bound <= value if end < 0 else bound >= value
        inner = torch.nextafter(held, torch.tensor(-end, dtype=dtype)).item()
        assert bound == value or ((inner > value) if end < 0 else (inner < value))


def test_facts_of_another_program() -> None:
    outer = edge(lambda x: x.clamp(0, 5), X, passes=())
    inner = edge(lambda x, y: (x + 1) * 2 + 0 * y, X, X + 1, passes=())
    placeholder = next(inner.user_inputs())

    def seed(node: Any) -> Interval | None:
        return _facts(outer) if node is placeholder else None

    (result,) = inner.output_node().all_input_nodes
    assert Facts({}, seed).of(result) == (2, 12, True)
    assert Facts({}).of(result)[:2] == INT64


@pytest.fixture(name="visited")
def _visited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The visited nodes, one entry per visit."""
    visited: list[Any] = []
    found = Facts._interval

    def record(self: Facts, node: Any, *rest: Any) -> Interval:
        visited.append(node)
        return found(self, node, *rest)

    monkeypatch.setattr(Facts, "_interval", record)
    return visited


def test_intervals_are_memoized(visited: list[Any]) -> None:
    attend = torch.nn.functional.scaled_dot_product_attention

    def model(q: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(4, 4)
        for value in range(20):
            mask = torch.where(c > value, mask, mask.transpose(-1, -2))
        return attend(attend(q, q, q, mask), q, q, mask)

    program = edge(model, torch.randn(1, 4, 8), torch.arange(16.0).view(4, 4), passes=())
    assert len(visited) == len(set(visited)) <= 60
    assert aten.mean.dim not in {node.target for node in program.graph.nodes}


def test_a_chain_may_be_long(visited: list[Any]) -> None:
    made = Synthetic()
    node = made.call(aten.sigmoid.default, made.input())
    for _ in range(5000):
        node = made.call(aten.neg.default, node)
    facts = Facts(made.program(node).fixed_constants())
    assert facts.of(node) == (0, 1, False) == facts.of(node)
    assert len(visited) == 5001
