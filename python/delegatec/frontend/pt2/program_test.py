# SPDX-License-Identifier: Apache-2.0
"""The programs that our reader returns are those of torch's reader, and lower to the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, ExportedProgram

from delegatec.frontend import archive
from delegatec.frontend.archive import LoadedModel
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model
from delegatec.frontend.pt2.testing import described
from delegatec.frontend.pt2.values import Values, ranges_of
from delegatec.lowering import lower
from delegatec.program import write_program

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Of(torch.nn.Module):
    """A function as a module, with weights and state."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(3, 4))
        self.register_buffer("table", torch.arange(4.0), persistent=False)
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)

    def read(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x) * self.turns.real
        return result


def state(m: Any, x: torch.Tensor) -> Any:
    m.state.add_(x)
    return m.linear(m.state) * m.table


def cond(m: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: m.linear(a).relu(), lambda a: a.neg(), (x,)) + torch.tensor(
        [2.0]
    )


def mapped(m: Any, x: torch.Tensor) -> Any:
    rows: Any = map_rows
    return rows(lambda row, y: row * y + row.sin(), x, torch.ones(4))


def scanned(m: Any, x: torch.Tensor) -> Any:
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


def looped(m: Any, x: torch.Tensor) -> Any:
    loop: Any = while_loop
    return loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


def scopes(m: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = m.linear(x)
    with torch.autocast("cpu", torch.bfloat16):
        return m.linear(y).float()


def several(m: Any, x: Any, n: int, *, scale: float) -> Any:
    a, b = x.split(2, dim=1)
    values, indices = (x * scale).topk(n)
    mean = torch.nn.functional.layer_norm(x, (4,))
    return {"a": a, "b": [b, None, n], "c": (values, indices, mean)}


def complex_(m: Any, x: torch.Tensor) -> Any:
    return torch.view_as_real(torch.fft.fft(x) * m.turns)


def quantized(m: Any, x: torch.Tensor) -> Any:
    q = torch.ops.quantized_decomposed
    stored = q.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
    return q.dequantize_per_tensor(stored, 0.1, 3, -128, 127, torch.int8)


def views(m: Any, x: torch.Tensor) -> Any:
    return x.view(4, 3).to(torch.float16).contiguous(memory_format=torch.contiguous_format), x.new_full(
        (2,), -float("inf")
    )


def dynamic(m: Any, x: torch.Tensor) -> Any:
    y = torch.cat([x, x]).reshape(-1, 2)[: x.shape[0]]
    return y, m.linear(x).mean(), x.shape[0] * 2


def pooled(m: Any, x: torch.Tensor) -> Any:
    return torch.nn.functional.avg_pool1d(x.transpose(0, 1), 2, 2)


AUTO = torch.export.Dim.AUTO
ROWS = torch.export.Dim("rows", min=2, max=16)
CASES: dict[str, Model] = {
    **{
        each.__name__: Model(Of(each), (X,))
        for each in (state, cond, mapped, scanned, looped, scopes, complex_, quantized, views)
    },
    "several": Model(Of(several), (X, 2), example_kwargs={"scale": 0.5}),
    "integers": Model(Of(lambda m, i: m.linear.weight[i]), (torch.tensor([[0, 3]]),)),
    "dynamic": Model(Of(dynamic), (X,), dynamic_shapes={"args": ({0: ROWS},)}),
    "multiples of a dynamic size": Model(
        Of(lambda m, x, y: (x.sin(), y.cos())),
        (torch.ones(12, 3), torch.ones(4)),
        dynamic_shapes={"args": ({0: 4 * ROWS, 1: ROWS}, {0: ROWS + 1})},
    ),
    "a size inferred from others": Model(
        Of(lambda m, x, y: torch.cat([x, x]) + y),
        (torch.ones(3), torch.ones(6)),
        dynamic_shapes={"args": ({0: AUTO(min=2, max=20)}, {0: AUTO(min=4, max=40)})},
    ),
    "no rows": Model(
        Of(lambda m, x: torch.nn.functional.interpolate(x, scale_factor=2)), (torch.ones(0, 2, 3, 4),)
    ),
    "pooled": Model(
        Of(pooled),
        (torch.ones(9, 4),),
        dynamic_shapes={"args": ({0: torch.export.Dim("rows", min=4, max=16)},)},
    ),
    "cond with dynamic sizes": Model(Of(cond), (X,), dynamic_shapes={"args": ({0: ROWS},)}),
    "nested": Model(Of(lambda m, x: (x["p"][0] + x["q"], [x["p"][1]])), ({"p": (X, X), "q": X},)),
    "methods": Model(
        Of(state), (X,), methods={"read": Method("read", (X,))}, constant_methods={"size": 3, "t": X}
    ),
}


def written(model: LoadedModel, backend: str) -> bytes | str:
    file = io.BytesIO()
    try:
        lowered = lower(model.methods, backend, constant_methods=model.constant_methods)
    except Exception as error:  # noqa: BLE001 - both readers must end in the same
        return str(error)
    write_program(lowered.emitted, file, [model.file])
    return file.getvalue()


def run(program: ExportedProgram) -> list[Any]:
    """Returns the results for the example inputs."""
    for stored in (program._state_dict, program._constants):
        stored.update({name: copied(tensor) for name, tensor in stored.items()})  # mapped memory is read-only
    assert program.example_inputs is not None
    args, kwargs = program.example_inputs
    leaves = torch.utils._pytree.tree_leaves(program.module()(*args, **kwargs))
    return [leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def copied(tensor: Any) -> Any:
    return torch.nn.Parameter(tensor.clone()) if isinstance(tensor, torch.nn.Parameter) else tensor.clone()


@pytest.mark.parametrize("case", CASES)
def test_the_program_is_that_of_torchs_reader(tmp_path: Path, case: str) -> None:
    path = str(tmp_path / "model.pt2")
    model = CASES[case]
    archive.save(export(model), path, model.constant_methods)
    ours, theirs = archive.load(path), archive.load(path, trusted=True)
    assert list(ours.methods) == list(theirs.methods)
    for name, program in ours.methods.items():
        assert described(program) == described(theirs.methods[name])
        assert run(program) == run(theirs.methods[name])
    for backend in ("portable", "mps"):
        lowered = written(archive.load(path), backend)
        assert lowered == written(archive.load(path, trusted=True), backend)
        assert isinstance(lowered, bytes) or case in ("complex_", "dynamic"), lowered


def test_a_constant_keeps_the_name_of_a_function(tmp_path: Path) -> None:
    path = str(tmp_path / "model.pt2")
    archive.save(export(Model(Of(lambda m, x, *, max: x.clamp(max=max)), (X,), {"max": 0.5})), path)
    names = [node.name for node in archive.load(path).methods["forward"].graph.find_nodes(op="placeholder")]
    assert names[-1] == "max"
    assert isinstance(written(archive.load(path), "portable"), bytes)


def test_ranges_of_unused_symbols_are_not_created() -> None:
    stored = {f"s{number}": {"min_val": 2, "max_val": None} for number in range(1000)}
    values = Values(ranges_of(stored))
    assert values.ranges() == {} and values._ranges == {}


@pytest.mark.parametrize("rows", [2, 3])
def test_a_size_of_zero_or_one_in_the_example_stays_dynamic(tmp_path: Path, rows: int) -> None:
    """torch asks of each tensor that it creates whether it is empty."""

    class Parts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x[2:], x * 2

    methods = export(Model(Parts(), (torch.ones(rows),), dynamic_shapes=({0: Dim.AUTO(min=1, max=9)},)))
    path = str(tmp_path / "model.pt2")
    archive.save(methods, path)
    nodes = {node.name: node for node in archive.load(path).methods["forward"].graph.nodes}
    sizes = [nodes[name].meta["val"].shape[0] for name in ("x", "mul", "slice_1")]
    assert all(isinstance(size, torch.SymInt) and not size.node.expr.is_Integer for size in sizes)
