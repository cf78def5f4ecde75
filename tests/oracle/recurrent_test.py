# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of sequences whose length varies, in the stock runtime, against eager mode."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.core_case import noise
from tests.oracle.oracle import OracleProgram

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_LENGTHS: Final = (5, 1, 12, 7)
_BACKENDS: Final = ("xnnpack", "portable")


class _Stacked(nn.Module):
    """Layers of several sizes, and a batch that varies, too: none fixes sizes of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.GRU(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.second, self.last = nn.LSTM(8, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, (_, c) = self.second(self.first(x)[0])
        return self.last(y).softmax(-1), c


class _Resumed(nn.Module):
    """The states are inputs, and results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 4, proj_size=2)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        y: tuple[Tensor, tuple[Tensor, Tensor]] = self.layer(x, (h, c))
        return y


_N: Final = Dim("n", min=1, max=12)
_B: Final = Dim("b", min=1, max=6)
_Inputs = Callable[[int], tuple[Tensor, ...]]
# module, dynamic shapes, and the inputs of a length
_CASES: Final[dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], _Inputs]]] = {
    "gru": (lambda: nn.GRU(3, 4, batch_first=True), ({1: _N},), lambda n: (noise(2, n, 3),)),
    "lstm": (lambda: nn.LSTM(3, 4, bias=False), ({0: _N},), lambda n: (noise(n, 2, 3),)),
    "rnn": (lambda: nn.RNN(3, 4, bidirectional=True), ({0: _N},), lambda n: (noise(n, 2, 3),)),
    "one_sequence": (lambda: nn.RNN(3, 4, nonlinearity="relu"), ({0: _N},), lambda n: (noise(n, 3),)),
    "stacked": (_Stacked, ({0: _B, 1: _N},), lambda n: (noise((n + 1) // 2, n, 3),)),
    "resumed": (
        _Resumed,
        ({0: _N}, None, None),
        lambda n: (noise(n, 2, 3), noise(1, 2, 2, seed=1), noise(1, 2, 4, seed=2)),
    ),
}


@pytest.mark.sampled(2)  # each module, with the backends by turns
@pytest.mark.parametrize(
    ("name", "backend"),
    [(name, _BACKENDS[(number + other) % 2]) for number, name in enumerate(_CASES) for other in (0, 1)],
)
def test_a_length_that_varies(name: str, backend: str) -> None:
    make, shapes, inputs = _CASES[name]
    torch.manual_seed(0)
    module = make().eval()
    (exported,) = export(Model(module, inputs(_LENGTHS[0]), dynamic_shapes=shapes)).values()
    file = io.BytesIO()
    write_program(lower({"forward": exported}, backend).emitted, file)
    runtime = OracleProgram(file.getvalue())
    for length in _LENGTHS:
        with torch.no_grad():
            wanted = pytree.tree_leaves(module(*inputs(length)))
        for result, expected in zip(runtime.run(inputs(length)), wanted, strict=True):
            torch.testing.assert_close(result, expected, atol=2e-6, rtol=2e-5)


_LONG: Final[dict[str, Callable[[], nn.Module]]] = {
    "gru": lambda: nn.GRU(8, 64, num_layers=2, bidirectional=True, batch_first=True),
    "lstm": lambda: nn.LSTM(8, 64, proj_size=40, batch_first=True),
    "rnn": lambda: nn.RNN(8, 200, batch_first=True),
}


@pytest.mark.parametrize(("form", "precision"), [("loop", "fp32"), ("loop", "fp16"), ("unrolled", "fp32")])
@pytest.mark.parametrize("name", _LONG)
def test_long_sequences_of_xnnpack(name: str, form: str, precision: str) -> None:
    torch.manual_seed(0)
    module, x = _LONG[name]().eval(), noise(2, 20, 8)
    (exported,) = export(Model(module, (x,))).values()
    lowered = lower({"forward": exported}, "xnnpack", {"recurrent": form, "precision": precision})
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    assert bool(lowered.programs["forward"].bodies) is (form == "loop")
    with torch.no_grad():
        wanted = pytree.tree_leaves(module(x))
    tolerance = 2e-6 if precision == "fp32" else 5e-3
    for result, expected in zip(OracleProgram(file.getvalue()).run((x,)), wanted, strict=True):
        torch.testing.assert_close(result, expected, atol=tolerance, rtol=10 * tolerance)


def test_an_unrolled_layer_is_fully_delegated() -> None:
    (exported,) = export(Model(nn.RNN(8, 200).eval(), (noise(20, 1, 8),))).values()
    with pytest.raises(DelegatecError) as caught:
        lower({"forward": copy.deepcopy(exported)}, "xnnpack", require_full_delegation=True)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC405" and 'recurrent = "unrolled"' in problem.help
    lower({"forward": exported}, "xnnpack", {"recurrent": "unrolled"}, require_full_delegation=True)


def test_a_static_length_is_unrolled() -> None:
    program = export(Model(nn.GRU(3, 4).eval(), (noise(5, 2, 3),), dynamic_shapes=({1: _B},)))["forward"]
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert torch.ops.aten.gru.input in called and torch.ops.higher_order.scan not in called
