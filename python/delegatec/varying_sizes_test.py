# SPDX-License-Identifier: Apache-2.0
"""Sizes that an operator outside of delegates computes from several others."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.testing.narrowed import narrowed_sizes
from delegatec.frontend import archive
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter


class Enlarged(nn.Module):
    """Convolves an image whose columns follow from those of two inputs, which the delegate does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 1, 3, 2))

    def forward(self, image: Tensor, filter: Tensor) -> Tensor:
        larger = f.conv_transpose2d(image, filter, stride=2)
        return f.conv_transpose2d(larger, self.weight, stride=2).relu() + larger.sum()


@pytest.mark.parametrize("backend", ["mlx", "vulkan", "xnnpack"])
def test_a_size_that_follows_from_two_others(backend: str) -> None:
    torch.manual_seed(0)
    module = Enlarged().eval()
    shapes = [((3, 4), 2), ((9, 2), 5), ((2, 9), 3)]
    calls = [(torch.randn(2, 3, *sizes), torch.randn(3, 2, 2, columns)) for sizes, columns in shapes]
    height, width, columns = (Dim(name, min=2, max=9) for name in ("height", "width", "columns"))
    sizes = ({2: height, 3: width}, {3: columns})
    exported = torch.export.export(module, calls[0], dynamic_shapes=sizes)
    lowered = lower({"forward": exported}, backend)
    assert len(lowered.reports["forward"].delegates) == 1
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    run = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run
    for call in calls:
        (found,) = run([*call])
        torch.testing.assert_close(found, module(*call).detach(), rtol=1e-5, atol=1e-5)


class Rows(nn.Module):
    """Gathers rows of a table whose number of rows is dynamic; a size of 1 must not be excluded either."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("positions", torch.tensor([0, 1, 1, 0]))

    def forward(self, x: Tensor) -> Tensor:
        table = f.adaptive_max_pool1d(x, 3).div(2, rounding_mode="floor")
        return f.embedding(self.positions.clamp(max=x.shape[0] - 1), table) + x.mT[:, :1].sum() * 2


@pytest.mark.parametrize("backend", ["mlx", "mps", "portable", "tosa", "vulkan", "xnnpack"])
@pytest.mark.parametrize("kind", ["auto", "named"])
def test_no_valid_size_is_excluded(backend: str, kind: str) -> None:
    rows = Dim.AUTO(min=1, max=9) if kind == "auto" else Dim("rows", min=1, max=9)
    exported = torch.export.export(Rows(), (torch.randn(3, 1),), dynamic_shapes=({0: rows},))
    lowered = lower(
        {"forward": exported}, backend, {"specification": "TOSA-1.0+FP"} if backend == "tosa" else {}
    )
    assert narrowed_sizes(lowered.programs["forward"]) == {}


def test_a_write_to_an_input_excludes_no_size(tmp_path: Path) -> None:
    """torch asks of a tensor with a batch of 1 whether its elements share memory, if a program was loaded."""

    class Written(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x[..., 0] += 1
            return x.sum(0)

    rows = ({1: Dim("rows", min=1, max=9)},)
    exported = torch.export.export(Written(), (torch.randn(1, 3, 4),), dynamic_shapes=rows)
    path = str(tmp_path / "written.pt2")
    archive.save({"forward": exported}, path)
    lowered = lower(archive.load(path).methods, [])
    assert narrowed_sizes(lowered.programs["forward"]) == {}


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_sum_of_bools_in_half_precision(precision: str) -> None:
    """A histogram counts by sums of zeros and ones."""

    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.histc(x, 4, -2.0, 2.0) + x.sum()

    columns = ({1: Dim("columns", min=1, max=9)},)
    exported = torch.export.export(Counts(), (torch.randn(1, 3),), dynamic_shapes=columns)
    assert lower({"forward": exported}, "mlx", {"precision": precision}).reports["forward"].delegates


class Padded(nn.Module):
    """Pads columns to a multiple of four; the addition makes their number static, after the padding."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return f.pad(x, (0, -x.shape[1] % 4)), x + torch.ones(2, 6)


def test_scalars_from_a_size_that_becomes_static(tmp_path: Path) -> None:
    """A loaded program has the calls that compute them: these were kept, as calls without sizes."""
    x = torch.ones(2, 6)
    exported = torch.export.export(Padded(), (x,), dynamic_shapes=({1: Dim.AUTO},))
    path = str(tmp_path / "padded.pt2")
    archive.save({"forward": exported}, path)
    program = to_edge(archive.load(path).methods["forward"])
    padded = program.user_outputs()[0]
    assert padded.args[1] == [0, 2]


class Solved(nn.Module):
    """Calls a function whose decomposition in torch needs sizes as integers."""

    def forward(self, x: Tensor) -> Tensor:
        solved: Tensor = torch.linalg.solve_triangular(torch.eye(x.shape[0]), x, upper=True)
        return solved


def test_a_decomposition_for_one_size_only(tmp_path: Path) -> None:
    sizes = ({0: Dim.AUTO(min=1, max=9)},)
    exported = torch.export.export(Solved(), (torch.ones(3, 6),), dynamic_shapes=sizes)
    path = str(tmp_path / "solved.pt2")
    archive.save({"forward": exported}, path)
    with pytest.raises(DelegatecError) as caught:
        lower(archive.load(path).methods, "vulkan")
    assert [problem.code for problem in caught.value.diagnostics] == ["DC205"]


class Grouped(nn.Module):
    """Convolves each channel, the number of which varies."""

    def forward(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        transposed = f.conv_transpose2d(x, weight, groups=x.shape[1])
        return transposed, f.conv2d(x, weight, groups=x.shape[1])


@pytest.mark.parametrize("backend", ["mlx", "mps", "vulkan", "xnnpack", "tosa"])
def test_a_number_of_groups_that_varies(backend: str) -> None:
    channels = Dim.DYNAMIC(min=2, max=8)
    calls = [(torch.randn(2, count, 5, 5), torch.randn(count, 1, 2, 2)) for count in (4, 2, 8)]
    exported = torch.export.export(Grouped(), calls[0], dynamic_shapes=({1: channels}, {0: channels}))
    file = io.BytesIO()
    write_program(lower({"forward": exported}, backend).emitted, file)
    program = parse_program(file.getvalue())
    run = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run
    for call in calls:
        for found, wanted in zip(run([*call]), Grouped()(*call), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


_WINDOWS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "padding": lambda x, weight, size: f.conv2d(x, weight, padding=size),
    "dilation": lambda x, weight, size: f.conv2d(x, weight, padding=9, dilation=size),
    "padding, in a row": lambda x, weight, size: f.conv1d(x[..., 0], weight[..., 0], padding=size),
    "stride, in a row": lambda x, weight, size: f.conv1d(x[..., 0], weight[..., 0], stride=size),
    "padding, transposed": lambda x, weight, size: f.conv_transpose2d(x, weight, padding=size // 2),
    "stride, transposed": lambda x, weight, size: f.conv_transpose2d(x, weight, stride=size),
    "dilation, transposed": lambda x, weight, size: f.conv_transpose2d(x, weight, dilation=size),
    "circular padding": lambda x, weight, size: f.pad(x, (0, 0, size, size), mode="circular") * 2,
    "slope": lambda x, weight, size: f.leaky_relu(x, 1 / size) + 1,
}


class Windows(nn.Module):
    """Computes settings of layers from a size."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 3))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [compute(x, self.weight, x.shape[2] // 4) for compute in _WINDOWS.values()]


@pytest.mark.parametrize("backend", ["mlx", "vulkan", "xnnpack"])
def test_settings_of_layers_that_vary(backend: str) -> None:
    """They were written to blobs as nodes of the graph: a traceback."""
    module, rows = Windows(), Dim.AUTO(min=8, max=32)
    calls = [torch.randn(2, 4, size, 8) for size in (8, 9, 32)]
    exported = torch.export.export(module, (calls[0],), dynamic_shapes=({2: rows},))
    file = io.BytesIO()
    write_program(lower({"forward": exported}, backend).emitted, file)
    program = parse_program(file.getvalue())
    run = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run
    for x in calls:
        for name, found, wanted in zip(_WINDOWS, run([x]), module(x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, msg=name)


def test_sizes_as_arguments_of_moves_and_products() -> None:
    """A step of a slice, a size of a tensor that the delegate does not have, and a product in float16."""

    class Several(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> list[Tensor]:
            return [torch.diagonal(x @ x.mT) * 2, torch.triu(y, 2) + 1, x.amin(1).prod()]

    sizes = ({0: Dim.AUTO(min=2, max=9)}, {1: Dim.AUTO(min=2, max=9)})
    calls = [(torch.rand(rows, 3), torch.randn(3, rows).double()) for rows in (4, 2, 9)]
    exported = torch.export.export(Several(), calls[0], dynamic_shapes=sizes)
    file = io.BytesIO()
    write_program(lower({"forward": exported}, "mlx", {"precision": "fp16"}).emitted, file)
    program = parse_program(file.getvalue())
    run = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run
    for call in calls:
        for found, wanted in zip(run([*call]), Several()(*call), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("backend", ["mlx", "vulkan", "xnnpack"])
def test_a_size_of_an_empty_tensor(backend: str) -> None:
    """The delegate had the tensor as an input, which its conversion to float16 refused."""

    class Rows(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return y.sigmoid() * x.shape[0]

    sizes = ({0: Dim.AUTO(min=2, max=9)}, None)
    calls = [(torch.ones(rows, 0, 4), torch.ones(3)) for rows in (4, 2, 9)]
    exported = torch.export.export(Rows(), calls[0], dynamic_shapes=sizes)
    file = io.BytesIO()
    write_program(lower({"forward": exported}, backend, {"precision": "fp16"}).emitted, file)
    method = parse_program(file.getvalue()).method("forward")
    for call in calls:
        (found,) = Interpreter(method, builtin_backends()).run([*call])
        torch.testing.assert_close(found, Rows()(*call), rtol=1e-2, atol=1e-2)


class Scaled(nn.Module):
    """Computes a number from a size, which torch.export takes from the example."""

    def forward(self, several: dict[str, Tensor], *, scale: bool = True) -> Tensor:
        x = several["x"]
        return f.scaled_dot_product_attention(x, x, x, scale=1 / x.shape[1] if scale else None)


def test_a_program_that_torch_exported_for_some_sizes_only() -> None:
    """The scale was that of the example for all sizes."""
    x, rows = torch.randn(1, 8, 4), Dim.AUTO(min=2, max=32)
    sizes = {"several": {"x": {1: rows}}, "scale": None}
    exported = torch.export.export(Scaled(), ({"x": x},), {"scale": True}, dynamic_shapes=sizes)
    with pytest.raises(DelegatecError) as caught:
        lower({"forward": exported})
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC113" and "(1 / dimension 1 of several['x']) == 0.125" in problem.message
    exported = torch.export.export(Scaled(), ({"x": x},), {"scale": False}, dynamic_shapes=sizes)
    assert lower({"forward": exported}).emitted


def test_a_variance_of_one_row() -> None:
    """The number of rows less one is zero: the runtime divides by it."""

    class Variance(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x.T).var(1)

    sizes = ({0: Dim("rows", min=1, max=4)},)
    exported = torch.export.export(Variance(), (torch.ones(3, 2),), dynamic_shapes=sizes)
    file = io.BytesIO()
    write_program(lower({"forward": exported}, "vulkan").emitted, file)
    (found,) = Interpreter(parse_program(file.getvalue()).method("forward"), builtin_backends()).run(
        [torch.ones(1, 2)]
    )
    assert found.isnan().all()


class Prefix(nn.Module):
    """Computes the first rows, whose number is read from a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        count = torch.where(position == 0, x.shape[1], 1).item()
        torch._check(count >= 1)
        torch._check(count <= x.shape[1])
        rows = self.layer(x.sin()[:, :count]).relu()
        return rows.view(1, count, 2, 4).transpose(1, 2) * 2


class Bounded(Prefix):
    """Takes the smaller one of a number that is read from a tensor and of a size."""

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        rows = f.conv1d(x.transpose(1, 2), torch.ones(8, 8, 2))
        count = (position.abs() + 2).item()
        torch._check(count >= 2)
        torch._check(count <= 8)
        rows = self.layer(rows[:, :, :count].transpose(1, 2)).relu()
        return rows.view(1, rows.shape[1], 2, 4).transpose(1, 2) * 2


@pytest.mark.parametrize("backend", ["mlx", "vulkan", "xnnpack"])
@pytest.mark.parametrize("kind", [Prefix, Bounded])
def test_a_size_that_is_read_from_a_tensor(backend: str, kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module, x = kind().eval(), torch.randn(1, 5, 8)
    sizes = ({1: Dim("rows", min=4, max=12)}, None)
    exported = torch.export.export(module, (x, torch.tensor([0])), dynamic_shapes=sizes)
    lowered = lower({"forward": exported}, backend)
    assert lowered.reports["forward"].delegates
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    run = Interpreter(program.method("forward"), builtin_backends(), named_data=program.named_bytes()).run
    for position in (0, 3, 0):
        (found,) = run([x, torch.tensor([position])])
        wanted = module(x, torch.tensor([position])).detach()
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
