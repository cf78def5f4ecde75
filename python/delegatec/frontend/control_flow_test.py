# SPDX-License-Identifier: Apache-2.0
"""Control flow in a `.pt2`: its constants, the same bytes each time, the user's lines in bodies."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.body_constants import lift_body_constants
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.frontend.workspace import Workspace

FLOW = """
import torch
import delegatec
from torch import nn
from torch._higher_order_ops import map, scan, while_loop


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def choose(self, x):
        return torch.cond(
            x.sum() > 0,
            lambda x: self.one(x),
            lambda x: self.two(x) * torch.tensor([1.0, 2, 3, 4]),
            (x,),
        )

    def body(self, i, x):
        y = self.choose(x)
        return i + 1, y.sin()

    def forward(self, x, rows):
        n, x = while_loop(lambda i, x: i < torch.tensor(3), self.body, (torch.tensor(0), x))
        carry, ys = scan(lambda c, row: (c + row, self.choose(c)), x, rows)
        return n, carry, ys, map(lambda row: row.sin() + torch.tensor([5.0]), rows)


def build():
    torch.manual_seed(0)
    return delegatec.Model(Flow(), (torch.randn(3, 4), torch.randn(5, 3, 4)))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "flow_model.py").write_text(FLOW)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("flow_model", None)


def _model() -> Model:
    model: Model = importlib.import_module("flow_model").build()
    return model


def _export(folder: Path) -> torch.export.ExportedProgram:
    return export(_model(), Workspace.at(str(folder)))["forward"]


def test_is_stored_with_its_constants_and_the_same_each_time(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [str(folder / name) for name in ("one.pt2", "two.pt2")]
    with caplog.at_level(logging.WARNING):
        for path in paths:
            archive.save({"forward": _export(folder)}, path)
    assert not [record for record in caplog.records if "serialize" in record.name]
    one, two = (Path(path).read_bytes() for path in paths)
    assert one == two and b"eval_with_key" not in one and str(folder).encode() not in one
    program = archive.load(paths[0]).methods["forward"]
    assert len([name for name in program.constants if name.startswith("lifted_tensor")]) == 5
    (x, rows), _ = program.example_inputs
    expected = pytree.tree_leaves(_model().module(x, rows))
    for actual, wanted in zip(pytree.tree_leaves(program.module()(x, rows)), expected, strict=True):
        torch.testing.assert_close(actual, wanted)


class Chooses(torch.nn.Module):
    """Its model has no inputs, and its bodies have none but the tensors that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(3))

    def forward(self) -> torch.Tensor:
        return torch.cond(self.state.sum() > 0, lambda: torch.tensor(2), lambda: torch.tensor(1), ())


def test_bodies_without_operands_have_their_constants(tmp_path: Path) -> None:
    program = export(Model(Chooses(), ()), Workspace.at(str(tmp_path)))["forward"]
    assert program.module()().item() == 2
    assert sorted(int(tensor) for tensor in program.constants.values()) == [1, 2]


class Scales(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * torch.tensor(2.0), lambda x: x + 1, (x,))


def test_constants_that_a_body_reads_twice() -> None:
    program = torch.export.export(Scales(), (torch.ones(3),))
    body = program.graph_module.true_graph_0
    (product,) = body.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    with body.graph.inserting_before(product):
        again = body.graph.node_copy(product.args[1])
        square = body.graph.call_function(product.target, (product.args[1], again))
    square.meta = dict(product.args[1].meta)
    product.args = (product.args[0], square)
    lift_body_constants(program)
    assert program.module()(torch.ones(3)).tolist() == [4.0, 4.0, 4.0]


def test_nodes_in_bodies_have_the_users_lines(folder: Path) -> None:
    lines: dict[str, set[str]] = {}
    for module in _export(folder).graph_module.modules():
        for node in module.graph.nodes:  # type: ignore[union-attr]
            if node.op == "call_function":
                trace = node.meta["stack_trace"]
                assert 'File "flow_model.py"' in trace and 'File "<' not in trace
                lines.setdefault(str(node.target), set()).add(trace.rpartition("\n")[2].strip())
    assert lines["aten.linear.default"] == {
        "lambda x: self.one(x),",
        "lambda x: self.two(x) * torch.tensor([1.0, 2, 3, 4]),",
    }
    assert "return i + 1, y.sin()" in lines["aten.sin.default"]
    assert lines["aten.gt.Scalar"] == {"x.sum() > 0,"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("torch.cond(x.sum() > 0, lambda x: x.half(), lambda x: x + 1, (x,))", "same dtype"),
        ("while_loop(lambda x: x.sum() < 9, lambda x: (torch.cat([x, x]),), (x,))", "same metadata"),
    ],
    ids=("dtypes", "shapes"),
)
def test_bodies_that_do_not_fit_are_rejected_at_their_line(folder: Path, body: str, told: str) -> None:
    call = f"        return {body}"
    head, _, tail = FLOW.partition("        n, x = ")
    (folder / "flow_model.py").write_text(f"{head}{call}\n\n\ndef {tail.partition('def ')[2]}")
    with pytest.raises(DelegatecError) as caught:
        _export(folder)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC207" and told in problem.message
    assert problem.location is not None and problem.location.text == call.strip()
