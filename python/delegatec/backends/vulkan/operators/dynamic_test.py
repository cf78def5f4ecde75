# SPDX-License-Identifier: Apache-2.0
"""Dynamic sizes: they vary between the runs of one delegate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest
import torch
from torch.export import Dim
from torch.nn import functional

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.testing import calls, compile_module, graph_of, run_sizes
from delegatec.backends.vulkan.testing.grid import floats

_BATCH: Final = Dim("batch", min=1, max=5)
_LENGTH: Final = Dim("length", min=3, max=12)
_SIZES: Final = ((2, 5), (5, 12), (1, 3), (4, 8), (2, 11))
_TABLE: Final = floats(12, 8)
_LAYER: Final = torch.nn.Linear(8, 6).requires_grad_(False)

Function = Callable[[torch.Tensor], Any]


def _attention(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.transpose(1, 2)).softmax(-1) @ x


def _causal(x: torch.Tensor) -> torch.Tensor:
    position = torch.arange(x.shape[1])
    return (x @ x.transpose(1, 2)).masked_fill(position[None] > position[:, None], -3e4).softmax(-1) @ x


# Of tensors of batch x length x 8.
_SEQUENCES: Final[Mapping[str, Function]] = {
    "elements": lambda x: x * 2 + x.sigmoid(),
    "linear": lambda x: _LAYER(x).relu(),
    "attention": _attention,
    "causal": _causal,
    "views": lambda x: x.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2).flatten(2) * 2,
    "joined": lambda x: torch.ones(x.shape[0] * x.shape[1], 8) + x.reshape(-1, 8),
    "cat": lambda x: torch.cat([x[:, 1:], x, x * 2, torch.zeros(x.shape[0], 1, 8)], 1),
    "without the last": lambda x: x[:, :-1] * 2,
    "the last": lambda x: x[:, -1] + x[:, -2:].sum(1),
    "every other": lambda x: x[:, ::2] * 2,
    "expand": lambda x: x[:, None].expand(-1, 3, -1, -1) * 2,
    "mean": lambda x: x.mean(1) + x.mean(-1, keepdim=True).sum(1),
    "all": lambda x: x.mean() + x,
    "argmax": lambda x: (x * 2).argmax(1),
    "softmax of columns": lambda x: x.softmax(1),
    "where": lambda x: torch.where(torch.arange(8) > 3, x, -x),
    "positions": lambda x: x + torch.arange(x.shape[1])[:, None],
    "rows of a table": lambda x: x + _TABLE[: x.shape[1]],
    "split": lambda x: torch.cat([each * 2 for each in x.split(4, -1)][::-1], -1),
    "gated": lambda x: functional.glu(x, -1),
    "pad": lambda x: functional.pad(x, (1, 2, 0, 1)) * 2,
    "by the length": lambda x: x.sum(1) / x.shape[1],
    "layer_norm": lambda x: functional.layer_norm(x, (8,)),
    "triangle": lambda x: (x @ x.transpose(1, 2)).tril(),
    "flip": lambda x: x.flip(1) * 2,
}

_PYRAMID: Final = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
    torch.nn.GroupNorm(2, 8),
    torch.nn.Upsample(scale_factor=2),
    torch.nn.Conv2d(8, 4, 1),
).requires_grad_(False)
_FILTER: Final = torch.nn.Conv1d(4, 6, 3, padding=1).requires_grad_(False)
_PATCHES: Final = torch.nn.Conv2d(3, 8, 4, stride=4).requires_grad_(False)


@pytest.mark.parametrize("options", [{}, {"storage": "buffer"}, {"precision": "fp16"}], ids=str)
@pytest.mark.parametrize("name", _SEQUENCES)
def test_sequences(name: str, options: dict[str, str]) -> None:
    batches = [(floats(batch, length, 8, seed=length),) for batch, length in _SIZES]
    run_sizes(_SEQUENCES[name], [{0: _BATCH, 1: _LENGTH}], batches, **options)


def test_inner_sizes_of_products() -> None:
    batches = [(floats(rows, length, seed=length),) for rows, length in _SIZES]
    run_sizes(lambda x: x @ (x.T @ x), [{0: _BATCH, 1: _LENGTH}], batches)


def test_images() -> None:
    height, width = Dim("height", min=2, max=8), Dim("width", min=2, max=8)
    batches = [(floats(1, 3, h * 2, w * 2, seed=w),) for h, w in ((4, 6), (8, 8), (2, 3), (7, 2))]
    run_sizes(_PYRAMID, [{2: 2 * height, 3: 2 * width}], batches)


def test_a_padded_sequence() -> None:
    batches = [(floats(batch, 4, length, seed=length),) for batch, length in _SIZES]
    compiled = run_sizes(_FILTER, [{0: _BATCH, 2: _LENGTH}], batches)
    assert calls(compiled)[:2] == ["constant_pad_nd", "convolution"]


def test_patches_of_a_batch() -> None:
    compiled = run_sizes(_PATCHES, [{0: _BATCH}], [(floats(n, 3, 8, 12, seed=n),) for n in (2, 5, 1)])
    assert "linear" in calls(compiled)


def test_a_static_choice_beside_sizes_that_are_dynamic() -> None:
    """The runtime resizes it, too: by a condition of lower rank, to another size."""
    y = floats(3, 5)
    batches = [(floats(batch, seed=batch), y) for batch in (2, 5, 1)]
    compiled = run_sizes(lambda x, y: (x * 2, torch.where(y[0] > 0, y, -y)), [{0: _BATCH}, {}], batches)
    assert "where.self" in calls(compiled)


_ROWS: Final = torch.tensor([0, 2, 1])


@pytest.mark.parametrize(
    ("function", "y"),
    [
        (lambda y: functional.linear(y[0, 0, 0], _TABLE), floats(2, 3, 4, 8)),
        (lambda y: functional.linear(y, _TABLE), floats(1, 3, 4, 8)),
        (lambda y: y.index_add(0, _ROWS, y[:3]), floats(4, 8)),
        (lambda y: y.index_put((_ROWS,), y[:3], accumulate=True), floats(4, 8)),
        (
            lambda y: functional.linear(functional.linear(y, _TABLE).mean((0, 1)), _TABLE.T),
            floats(1, 3, 4, 8),
        ),
    ],
)
def test_a_static_call_beside_sizes_that_are_dynamic(function: Function, y: torch.Tensor) -> None:
    """The runtime resizes the results of a call if one of its arguments changed: not those of this one."""
    batches = [(floats(batch, 3, seed=batch), y) for batch in (2, 5, 1)]
    run_sizes(lambda x, y: (x * 2, function(y)), [{0: _BATCH}, {}], batches)


@pytest.mark.parametrize("rank", [1, 4])
def test_a_static_layer_of_a_sum_over_sizes_that_are_dynamic(rank: int) -> None:
    """A result of one size has not changed, although its operand has."""
    shape = [1] * (rank - 1) + [8]
    batches = [(floats(batch, length, 8, seed=length),) for batch, length in _SIZES]
    compiled = run_sizes(
        lambda x: functional.linear(x.mean((0, 1)).view(shape), _TABLE) + 1,
        [{0: _BATCH, 1: _LENGTH}],
        batches,
    )
    assert "linear" in calls(compiled)


def test_positions_of_integers_of_several_sizes() -> None:
    """Several indices compute positions from sizes, which are not tensors."""
    sizes = {0: _BATCH, 1: _LENGTH, 2: Dim("depth", min=1, max=9), 3: Dim("width", min=1, max=9)}
    x = (floats(3, 4, 5, 2) * 50).to(torch.int8)
    rows, columns = torch.tensor([[1], [0]]), torch.tensor([2, 0, 1])
    compiled = compile_module(Call(lambda x: x[rows, columns]), (x,), ((sizes,),))
    assert compiled(x)[0].equal(x[rows, columns])


def test_a_position_that_is_zero_for_the_example_is_no_constant() -> None:
    length = Dim("length", min=2, max=9)
    run_sizes(
        lambda x: x.tril(x.shape[-1] // 2 - 1) * 2,
        [{1: length, 2: length}],
        [(floats(2, 3, 3),), (floats(2, 9, 9),), (floats(2, 2, 2),)],
    )


def test_scalars_are_computed_inside() -> None:
    compiled = run_sizes(
        lambda x, y: x[:, : y.shape[0]] * 2,
        [{1: Dim("long", min=9, max=12)}, {0: Dim("short", min=2, max=8)}],
        [(floats(2, 10), floats(5)), (floats(2, 12), floats(8)), (floats(2, 9), floats(2))],
    )
    graph = graph_of(compiled)
    # the second operand is an input for its size
    assert (len(graph.inputIds), calls(compiled)) == (2, ["int", "slice_copy.Tensor", "mul.Tensor"])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum() / x.shape[0],
        lambda x: x.mean().exp(),
        lambda x: x.amax() * x.shape[1] - x.shape[0],
        lambda x: (x.amin() + x.shape[1] / x.shape[0]).abs(),
        lambda x: (x * 9).clamp(max=x.shape[0] - 1),
        lambda x: (x * 9).clamp(x.shape[0] / x.shape[1], x.shape[1]),
        lambda x: functional.hardtanh(x * 9, -1, x.shape[0]),
        lambda x: (x * 20).to(torch.int32).clamp(-1, x.shape[1] + x.shape[0]),
        lambda x: (x * 9).round() == x.shape[0],
        lambda x: (x * 9).round() != x.shape[1] + 1,
        lambda x: x.shape[0] - x,
        lambda x: (x * 9).round() > x.shape[0],
        lambda x: (x * 9).round() >= x.shape[1],
        lambda x: torch.where(x > 0, x, x.shape[0]) * 2,
        lambda x: (x * 2).masked_fill(x > 0, x.shape[1]),
        lambda x: torch.full_like(x, x.shape[0]) * x,
        lambda x: torch.maximum(x, torch.full((), x.shape[0] * 0.5)) * 2,
    ],
)
def test_a_scalar_and_a_size(function: Function) -> None:
    batches = [(floats(batch, length, seed=length),) for batch, length in _SIZES]
    compiled = run_sizes(function, [{0: _BATCH, 1: _LENGTH}], batches)
    assert compiled.left == []


@pytest.mark.parametrize("aligned", [False, True])
def test_a_sampled_image_of_any_height(aligned: bool) -> None:
    grid = floats(1, 6, 7, 2)
    batches = [(floats(1, 3, height, 4, seed=height), grid) for height in (5, 9, 2)]
    sample = partial(functional.grid_sample, align_corners=aligned)
    run_sizes(lambda x, grid: sample(x, grid), [{2: Dim("height", min=2, max=9)}, {}], batches)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float16])
def test_a_tensor_for_its_size_alone(dtype: torch.dtype) -> None:
    batches = [(torch.zeros(batch, 4).to(dtype), floats(2, 4, seed=batch)) for batch in (2, 5, 1)]
    run_sizes(lambda x, y: y[:1].expand_as(x) * 2, [{0: _BATCH}, {}], batches)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.uint8, torch.float8_e4m3fn]
)
def test_a_tensor_of_another_dtype_for_its_size_alone(dtype: torch.dtype) -> None:
    """The runtime copies it like others, and cannot."""
    function = Call(lambda x, y: (y[:1] * 2).expand_as(x) + 1)
    x, y = torch.zeros(3, 4).to(dtype), floats(2, 4)
    compiled = compile_module(function, (x, y), (({0: _BATCH}, {}),))
    assert ["aten.expand.default" in str(name) for name, _, _ in compiled.left] == [True]
    assert ("boundary" if dtype.itemsize == 1 and not dtype.is_floating_point else "dtype") in compiled.left[
        0
    ]
    for batch in (3, 5, 1):
        x = torch.zeros(batch, 4).to(dtype)
        assert compiled(x, y)[0].equal(function(x, y))


def test_the_number_of_elements_is_a_size() -> None:
    batches = [(floats(batch, 3, seed=length), floats(length, seed=batch)) for batch, length in _SIZES]
    run_sizes(
        lambda x, y: torch.meshgrid(x[:, 0], y, indexing="ij")[0] * 2, [{0: _BATCH}, {0: _LENGTH}], batches
    )


def test_members_of_another_tensor() -> None:
    module = Call(torch.isin)
    x, y = torch.arange(4), torch.arange(3)
    compiled = compile_module(module, (x, y), (({0: _BATCH}, {0: Dim("others", min=1, max=6)}),))
    for many, others in ((4, 3), (5, 6), (1, 1)):
        x, y = torch.arange(many), torch.arange(others) * 2
        assert compiled(x, y)[0].equal(torch.isin(x, y))


def _left(function: Function, sizes: Mapping[int, Any], example: torch.Tensor) -> list[str]:
    compiled = compile_module(Call(function), (example,), ((dict(sizes),),))
    return [message for _, _, message in compiled.left]


def test_a_batch_of_images_is_rejected() -> None:
    convolution = torch.nn.Conv2d(3, 4, 3).requires_grad_(False)
    (message,) = _left(convolution, {0: _BATCH}, floats(2, 3, 8, 8))
    assert "a batch of 5" in message


def test_a_batch_of_groups_is_rejected() -> None:
    (message,) = _left(torch.nn.GroupNorm(2, 4), {0: _BATCH}, floats(2, 4, 8, 8))
    assert "a dynamic batch size" in message


def test_other_scales_are_rejected() -> None:
    resize = torch.nn.Upsample(size=(8, 8), mode="bilinear")
    messages = _left(resize, {2: _LENGTH}, floats(1, 4, 5, 4))
    assert any("ratios of" in message for message in messages), messages


def test_an_index_along_a_dynamic_length() -> None:
    """Offsets of rows are not constants: they were multiples of a placeholder that torch computes with."""

    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.gather(-1, index.clamp(0, 2)) * 2

    def inputs(length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return floats(2, 1, 3, 2, length), torch.arange(12 * length).view(2, 1, 3, 2, length) % 4

    compiled = compile_module(Call(function), inputs(5), (({4: _LENGTH}, {4: _LENGTH}),))
    assert compiled.delegates and not compiled.left
    for length in (3, 12, 7):
        torch.testing.assert_close(compiled(*inputs(length))[0], function(*inputs(length)))
