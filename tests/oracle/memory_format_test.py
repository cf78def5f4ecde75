# SPDX-License-Identifier: Apache-2.0
"""Channels-last inputs, weights, state, conversions and outputs in the stock runtime, against eager mode."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export as export_model
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import ProgramOptions, weights_of, write_flat_tensors, write_program
from delegatec.program.reader import parse_program
from delegatec.program.reader.model import Tensor as TensorSpec
from delegatec.verify import Interpreter, verify_program
from tests.oracle.oracle import OracleProgram

LAST = torch.channels_last
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": LAST}
ORDERS = {"contiguous": (0, 1, 2, 3), "channels_last": (0, 2, 3, 1)}
DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.bfloat16,
]


class Inverted(nn.Module):
    """Blocks of MobileNetV2: 1x1, depthwise and 1x1 convolutions with batch norms, and a residual one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.first, self.second = self._block(8, 12, 2), self._block(12, 12, 1)
        self.head = nn.Linear(12, 7)

    @staticmethod
    def _block(inside: int, out: int, stride: int) -> nn.Sequential:
        wide = 4 * inside
        return nn.Sequential(
            *(nn.Conv2d(inside, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()),
            *(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()),
            *(nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out)),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.first(self.stem(x))
        x = x + self.second(x)
        return self.head(x.mean((2, 3))), x


class Written(nn.Module):
    """A state that is channels-last is written to, and so is the input."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=LAST))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x)
        x.mul_(2)
        return self.seen * 3 + x


class Function(nn.Module):
    """A function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def _image(*sizes: int, memory_format: torch.memory_format = LAST) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(sizes, generator=generator).to(memory_format=memory_format)


def _network(memory_format: torch.memory_format = torch.contiguous_format) -> nn.Module:
    torch.manual_seed(0)
    model = Inverted().eval()
    # torch's stub of Module.to lacks the argument
    return model.to(memory_format=memory_format)  # type: ignore[call-overload, no-any-return]


def _pte(
    model: nn.Module,
    example: Tensor,
    backend: str = "portable",
    *,
    options: ProgramOptions | None = None,
    dynamic: Any = None,
) -> bytes:
    exported = export(model.eval(), (example,), dynamic_shapes=dynamic)
    file = io.BytesIO()
    write_program(lower({"forward": exported}, backend, program_options=options).emitted, file)
    return file.getvalue()


def _tensors(pte: bytes) -> list[TensorSpec]:
    return [value for value in parse_program(pte).method("forward").values if isinstance(value, TensorSpec)]


def _input_order(pte: bytes) -> tuple[int, ...]:
    method = parse_program(pte).method("forward")
    value = method.values[method.inputs[0]]
    assert isinstance(value, TensorSpec)
    return value.dim_order


def _interpreter(pte: bytes) -> Interpreter:
    return Interpreter(parse_program(pte).method("forward"), builtin_backends())


def _check(actual: Any, expected: Any, example: Tensor) -> None:
    """Compares float32 kernels of two libraries: largest measured difference 6e-8.

    Outputs with four dimensions have the order of eager mode's if the example is channels-last, else they
    are contiguous.
    """
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert e.count_nonzero() > 0
        is_last = e.dim() == 4 and not e.is_contiguous() and not example.is_contiguous()
        assert a.is_contiguous(memory_format=LAST if is_last else torch.contiguous_format)
        torch.testing.assert_close(a, e, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("example", FORMATS)
@pytest.mark.parametrize("weights", FORMATS)
def test_a_network_agrees_with_eager_mode(weights: str, example: str) -> None:
    model = _network(FORMATS[weights])
    image = _image(2, 3, 16, 16, memory_format=FORMATS[example])
    pte = _pte(model, image)
    assert _input_order(pte) == ORDERS[example]
    _check(OracleProgram(pte).run([image]), model(image), image)
    _check(_interpreter(pte).run([image]), model(image), image)


@pytest.mark.parametrize("example", FORMATS)
def test_a_delegate_agrees_with_eager_mode(example: str, tmp_path: Path) -> None:
    model = _network(LAST)
    image = _image(2, 3, 16, 16, memory_format=FORMATS[example])
    pte = _pte(model, image, "mps")
    assert _input_order(pte) == ORDERS[example] and len(parse_program(pte).method("forward").delegates) == 1
    _check(_interpreter(pte).run([image]), model(image), image)
    path = tmp_path / "network.pte"
    path.write_bytes(pte)
    methods = {"forward": export(model, (image,))}
    result = verify_program(path, methods, builtin_backends(), atol=1e-5, rtol=1e-5)
    assert result.passed, result.table()


DYNAMIC = {
    "batch": ({"x": {0: Dim("n", max=4)}}, [(1, 16, 16), (2, 16, 16), (4, 16, 16)]),
    "size": (
        {"x": {0: Dim("n", max=4), 2: Dim("h", min=8, max=32), 3: Dim("w", min=8, max=32)}},
        [(1, 8, 9), (4, 32, 32), (3, 24, 20)],
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_of_a_channels_last_input_may_be_dynamic(name: str) -> None:
    shapes, cases = DYNAMIC[name]
    model = _network()
    pte = _pte(model, _image(2, 3, 16, 16), dynamic=shapes)
    assert _input_order(pte) == ORDERS["channels_last"]
    runtime, interpreter = OracleProgram(pte), _interpreter(pte)
    for batch, height, width in cases:
        image = _image(batch, 3, height, width)
        _check(runtime.run([image]), model(image), image)
        _check(interpreter.run([image]), model(image), image)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_reordered(dtype: torch.dtype) -> None:
    image = (torch.arange(120) % 97).reshape(2, 3, 4, 5).to(dtype).to(memory_format=LAST)
    pte = _pte(Function(lambda x: x), image)
    assert _input_order(pte) == ORDERS["channels_last"]
    _check(OracleProgram(pte).run([image]), image, image)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_orders_without_a_kernel_are_rejected(dtype: torch.dtype) -> None:
    image = torch.ones(2, 3, 4, 5, dtype=dtype).to(memory_format=LAST)
    with pytest.raises(DelegatecError) as error:
        _pte(Function(lambda x: x), image)
    assert [d.code for d in error.value.diagnostics] == ["DC205"]
    assert "channels-last" in str(error.value) and str(dtype) in str(error.value)


CONVERSIONS: dict[str, Callable[[Tensor], Any]] = {
    "clone": lambda x: x.clone(memory_format=LAST),
    "to": lambda x: x.to(memory_format=LAST) * 2,
    "to dtype": lambda x: (x * 9).to(torch.int32, memory_format=LAST),
    "contiguous": lambda x: x.contiguous(memory_format=LAST) + 1,
    "channels_last_3d": lambda x: x.unsqueeze(2).to(memory_format=torch.channels_last_3d) + 1,
    "zeros_like": lambda x: torch.zeros_like(x, memory_format=LAST) + x,
    "full_like": lambda x: torch.full_like(x, 3.0, memory_format=LAST) * x,
    "empty_like": lambda x: torch.empty_like(x, memory_format=LAST).fill_(2) + x,
    "empty": lambda x: torch.empty(2, 3, 4, 5, memory_format=LAST).fill_(2) + x,
    "view": lambda x: x.to(memory_format=LAST).permute(0, 2, 3, 1).reshape(2, 20, 3),
    "branch": lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)),
    "input twice": lambda x: (x, x),
}


@pytest.mark.parametrize("example", FORMATS)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_inside_keep_the_values(name: str, example: str) -> None:
    function = CONVERSIONS[name]
    image = _image(2, 3, 4, 5, memory_format=FORMATS[example])
    pte = _pte(Function(function), image)
    _check(OracleProgram(pte).run([image]), function(image), image)
    _check(_interpreter(pte).run([image]), function(image), image)


@pytest.mark.parametrize("example", FORMATS)
def test_a_conversion_copies_if_eager_mode_does(example: str) -> None:
    """`to` returns the input itself if it is already channels-last: a write to it changes the input."""

    def function(x: Tensor) -> Tensor:
        x.to(memory_format=LAST).add_(1)
        return x * 2

    image = _image(2, 3, 4, 5, memory_format=FORMATS[example])
    pte = _pte(Function(function), image)
    own = image.clone()
    _check(OracleProgram(pte).run([image]), function(own), image)
    assert torch.equal(own, image) == (example == "contiguous")


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("example", FORMATS)
def test_state_and_inputs_are_written_to(example: str, planned: bool) -> None:
    image = _image(2, 3, 4, 5, memory_format=FORMATS[example])
    model = Written()
    pte = _pte(Written(), image, options=ProgramOptions(plan_inputs=planned, plan_outputs=planned))
    runtime, interpreter = OracleProgram(pte), _interpreter(pte)
    for _ in range(2):
        inputs = [image.clone() for _ in range(3)]
        expected = model(inputs[0])
        _check(runtime._module.run_method("forward", [inputs[1]]), expected, image)
        _check(interpreter.run([inputs[2]]), expected, image)
        assert torch.equal(inputs[0], image * 2)
        assert torch.equal(inputs[1], inputs[0]) and torch.equal(inputs[2], inputs[0])


OTHERS = {
    "transposed": lambda: torch.rand(5, 4, 3, 2).permute(3, 2, 1, 0),
    "expanded": lambda: torch.rand(1, 3, 4, 5).expand(2, 3, 4, 5),
    "sliced": lambda: torch.rand(4, 3, 4, 5)[::2],
    "channels_last_3d": lambda: torch.rand(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_strides_are_passed_contiguous(name: str) -> None:
    """The runtime's Python interface rejects all others instead of returning wrong results."""
    example = OTHERS[name]()
    pte = _pte(Function(lambda x: x * 2), example)
    assert _input_order(pte) == tuple(range(example.dim()))
    _check(OracleProgram(pte).run([example.contiguous()]), example * 2, example.contiguous())
    with pytest.raises(RuntimeError, match="contiguous or channels-last"):
        OracleProgram(pte)._module.run_method("forward", [example])


def test_one_channel_is_contiguous() -> None:
    """Both orders have the same bytes, and the caller's tensor counts as contiguous."""
    image = _image(2, 1, 4, 5)
    pte = _pte(Function(lambda x: x + 1), image)
    assert _input_order(pte) == ORDERS["contiguous"]
    _check(OracleProgram(pte).run([image]), image + 1, image)


@pytest.mark.parametrize("example", FORMATS)
def test_the_runtime_does_not_look(example: str) -> None:
    """A documented limit. If this test fails, the runtime supports it, and the warning is obsolete."""
    other = next(name for name in FORMATS if name != example)
    image = _image(2, 3, 4, 5, memory_format=FORMATS[example])
    runtime = OracleProgram(_pte(Function(lambda x: x + 1), image))
    (result,) = runtime.run([image.contiguous(memory_format=FORMATS[other])])
    assert not torch.equal(result, image + 1)


def test_an_archive_keeps_the_format(tmp_path: Path) -> None:
    model, image = _network(LAST), _image(2, 3, 16, 16)
    path = str(tmp_path / "network.pt2")
    archive.save(export_model(Model(model, (image,))), path)
    file = io.BytesIO()
    write_program(lower(archive.load(path).methods).emitted, file)
    assert _input_order(file.getvalue()) == ORDERS["channels_last"]
    _check(OracleProgram(file.getvalue()).run([image]), model(image), image)


def test_channels_last_weights_may_be_external() -> None:
    """Weights in another order stay in the program, in row-major order."""
    model, image = _network(LAST), _image(2, 3, 16, 16)
    methods = {"forward": export(model, (image,))}
    pte, ptd = io.BytesIO(), io.BytesIO()
    write_flat_tensors(weights_of(methods), ptd)
    write_program(lower(methods, external_weights=True).emitted, pte)
    external = {value.external_key for value in _tensors(pte.getvalue())} - {None}
    assert "head.weight" in external and "stem.0.weight" not in external
    _check(OracleProgram(pte.getvalue(), ptd.getvalue()).run([image]), model(image), image)


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("outputs", [True, False])
def test_the_layout_may_be_an_option(inputs: bool, outputs: bool) -> None:
    """Of tensors with four dimensions that have two layouts."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x * 2, x.sum(1), y + x, y.sum((2, 3), keepdim=True)

    image, one = _image(2, 3, 4, 5, memory_format=torch.contiguous_format), torch.rand(2, 1, 4, 5)
    options = ProgramOptions(channels_last_inputs=inputs, channels_last_outputs=outputs)
    file = io.BytesIO()
    methods = {"forward": export(Function(function), (image, one))}
    write_program(lower(methods, program_options=options).emitted, file)
    assert _input_order(file.getvalue()) == ORDERS["channels_last" if inputs else "contiguous"]
    given = [image.to(memory_format=LAST if inputs else torch.contiguous_format), one]
    wanted = function(image, one)
    for results in (OracleProgram(file.getvalue()).run(given), _interpreter(file.getvalue()).run(given)):
        assert [each.is_contiguous() for each in results] == [not outputs, True, not outputs, True]
        for result, value in zip(results, wanted, strict=True):
            torch.testing.assert_close(result, value)
