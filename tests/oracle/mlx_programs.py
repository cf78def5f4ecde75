# SPDX-License-Identifier: Apache-2.0
"""Small modules for MLX: what the compiler makes of layers, quantized weights, state and dynamic sizes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812
from torch.utils import _pytree as pytree

from delegatec.backends.common.testing import Call, floats, ints
from delegatec.edge.quantization.affine import AFFINE
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.mlx_case import Case, Results

IMAGE: Final = floats(2, 6, 9, 8)
VOLUME: Final = floats(1, 3, 4, 6, 5)
HALF: Final = {"precision": "fp16"}
Build = Callable[[], nn.Module]


def lowered(build: Build, inputs: Sequence[Tensor], dynamic_shapes: Any, options: Mapping[str, str]) -> bytes:
    """Returns the program of a module."""
    exported = torch.export.export(build(), tuple(inputs), dynamic_shapes=dynamic_shapes)
    file = io.BytesIO()
    write_program(lower({"forward": exported}, "mlx", options).emitted, file)
    return file.getvalue()


def _eager(build: Build, calls: Sequence[Sequence[Tensor]]) -> Results:
    module = build()
    found: Results = []
    for inputs in calls:
        try:
            with torch.no_grad():
                found.append([each.clone() for each in pytree.tree_leaves(module(*inputs))])
        except IndexError:
            found.append(None)
    return found


def _case(
    name: str,
    make: Build,
    *calls: tuple[Tensor, ...],
    dynamic_shapes: Any = None,
    options: Mapping[str, str] | None = None,
) -> Case:
    """Returns a case; the module is exported with the inputs of the first call."""

    def build() -> nn.Module:
        torch.manual_seed(0)
        return make().eval()

    return Case(
        name,
        partial(lowered, build, calls[0], dynamic_shapes, options or {}),
        calls,
        partial(_eager, build, calls),
        1e-2 if "precision" in (options or {}) else 0.0,
    )


def _function(name: str, function: Callable[..., Any], *calls: tuple[Tensor, ...], **options: Any) -> Case:
    return _case(name, partial(Call, function), *calls, **options)


def _layers() -> Iterator[Case]:
    network = lambda: nn.Sequential(  # noqa: E731 - with a new module for each
        *(nn.Conv2d(6, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, groups=8, padding=1)),
        *(nn.Hardswish(), nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(4, 5), nn.LogSoftmax(1)),
    )
    for name, make, x in (
        ("an image network", network, IMAGE),
        ("convolutions of signals", lambda: nn.Conv1d(4, 6, 3, 2, padding=1, groups=2), floats(2, 4, 10)),
        ("convolutions of volumes", lambda: nn.Conv3d(2, 4, 3, padding=1), floats(1, 2, 4, 5, 6)),
        ("transposed, one dimension", lambda: nn.ConvTranspose1d(4, 6, 4, 2, 1), floats(2, 4, 9)),
        ("transposed", lambda: nn.ConvTranspose2d(6, 4, 3, 3, 2, 2, groups=2), IMAGE),
        ("transposed volumes", lambda: nn.ConvTranspose3d(4, 2, 3, 2, 1, 1), floats(1, 4, 3, 4, 2)),
        ("average pool", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
        ("pools of several sizes", lambda: nn.AdaptiveAvgPool2d((7, 3)), IMAGE),
        ("dilated pool", lambda: nn.MaxPool2d(3, 2, 1, 2), IMAGE - 5),
        ("pools of volumes", lambda: nn.Sequential(nn.MaxPool3d(3, 1, 1), nn.AvgPool3d(2)), VOLUME),
        ("pools of signals", lambda: nn.Sequential(nn.MaxPool1d(3, 2, 1), nn.AvgPool1d(2)), IMAGE[0]),
        ("group norm", lambda: nn.GroupNorm(3, 6), IMAGE),
        ("layer norm", lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)), IMAGE),
        ("rms norm", lambda: nn.RMSNorm(8), IMAGE),
        ("recurrent", lambda: nn.GRUCell(8, 5), IMAGE[0, 0]),
    ):
        yield _case(name, make, (x,))
    yield _case("an image network, fp16", network, (IMAGE,), options=HALF)
    q, k, v = floats(2, 4, 5, 8), floats(2, 2, 7, 8, seed=1), floats(2, 2, 7, 8, seed=2)
    mask = floats(2, 1, 5, 7, seed=3) > -0.3
    mask[1, 0, 2] = False
    grouped = partial(F.scaled_dot_product_attention, enable_gqa=True)
    yield _function("attention with masked rows", grouped, (q, k, v, mask))
    yield _function("causal attention", lambda x: grouped(x, x, x, is_causal=True), (q,))
    yield _function("attention, fp16", grouped, (q, k, v), options=HALF)
    wide = torch.bfloat16
    block = lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, F.silu, batch_first=True)  # noqa: E731
    yield _case("a transformer layer", block, (floats(2, 5, 8),))
    yield _case("a transformer layer, bf16", lambda: block().to(wide), (floats(2, 5, 8).to(wide),))


def _moved(x: Tensor) -> tuple[Tensor, ...]:
    x = x * 2
    return x.roll(2, 1), x.flip(0), F.pad(x, (1, 2, 0, 1), value=2.0), x[:, ::3], *x.split(3, 1)


def _with_nan() -> Tensor:
    """An image with equal elements, NaN, and a window of nothing but -infinity."""
    x = (IMAGE * 2).round()
    x[0, 0, 2:4, 3:5] = float("nan")
    x[1, :, :4, :4] = -float("inf")
    return x


def _operators() -> Iterator[Case]:
    x, special = floats(4, 7), torch.tensor([[2.0, float("nan"), 3.0, 3.0], [0.0, -1.0, float("inf"), 5.0]])
    whole, rows = torch.tensor([[7, -7, 6], [-6, 0, 5]]), ints(4, 3, high=4)
    for name, function, given in (
        ("argmax and NaN", lambda x: (x.argmax(1), x.argmin(0), *x.max(1)), (special,)),
        ("order", lambda x: (*x.sort(1, descending=True), *x.topk(3, 0), x.cumsum(1)), (x,)),
        ("division of integers", lambda x, y: (x // y, x % y, x / y, x.fmod(y)), (whole, whole[:, :1])),
        ("indices", lambda x, i: (x[i], x.gather(0, i), x.scatter_add(0, i, x)), (x[:, :3], rows)),
        ("scatters", lambda x, i: (x.scatter(0, i, x * 2), x.scatter(1, i // 2, 3.0)), (x[:, :3], rows)),
        ("comparisons", lambda x: (x > 0, (x > 0) & (x < 2), x.isnan(), x.clamp(-1, 1)), (special,)),
        ("moments", lambda x: (x.var(1), x.std(), x.mean(0), x.amax(), x.prod(1), x.logsumexp(0)), (x,)),
        ("moves", _moved, (x,)),
        ("triangles", lambda x: (x.exp().tril(1), x.triu() * 2, torch.stack([x, -x], 1).tile(2, 1)), (x,)),
        ("upsampling", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGE[:1, :2],)),
        ("positions of maxima", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (_with_nan(),)),
        ("positions of maxima in volumes", lambda x: F.max_pool3d(x, 2, return_indices=True), (VOLUME,)),
        ("bits", lambda x: (x & 3, x | 8, x ^ 5, ~x), (whole,)),
    ):  # fmt: skip
        yield _function(name, function, given)


class Recurrent(nn.Module):
    """A recurrent layer, without its state.

    Args:
        layer: the layer.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Returns the hidden states."""
        found: Tensor = self.layer(x)[0]
        return found


def _branch(x: Tensor) -> Any:
    def inner(x: Tensor) -> Any:
        return torch.cond(x.amax() > 0.9, lambda x: x * 2, lambda x: x.sin(), (x,))

    return torch.cond(x.sum() > 0, inner, lambda x: x.exp(), (x,))


def _loop(x: Tensor) -> Any:
    loop: Any = while_loop
    start = torch.zeros((), dtype=torch.int64), x
    return loop(lambda i, h: (i < 6) & (h.abs().sum() < 30), lambda i, h: (i + 1, h * 1.5 + x), start)


def _mixture(x: Tensor, scores: Tensor, experts: Tensor) -> Tensor:
    weights, chosen = scores.softmax(1).topk(2)
    rows = torch.bmm(x.repeat_interleave(2, 0).unsqueeze(1), experts[chosen.flatten()])
    return (rows.view(x.shape[0], 2, -1) * weights.unsqueeze(2)).sum(1)


def _control_flow() -> Iterator[Case]:
    x = floats(4, 7).abs() / 2
    yield _function("a branch", _branch, (x,), (x * 3,), (-x,))
    yield _function("a loop", _loop, (x,), (x / 50,), (x * 9,))
    rows = floats(6, 2, 8)
    yield _case("LSTM", lambda: Recurrent(nn.LSTM(8, 5, 2, bidirectional=True)), (rows,))
    yield _case("GRU, fp16", lambda: Recurrent(nn.GRU(8, 5)), (rows,), options=HALF)
    yield _function("a mixture", _mixture, (floats(5, 8), floats(5, 4, seed=1), floats(4, 8, 6, seed=2)))


class Quantized(nn.Module):
    """A linear layer, or an embedding, of integers with scales.

    Args:
        bits: of a value.
        group: columns with one scale.
        zeros: whether there are zero points.
        is_embedding: reads rows instead.
    """

    values: Tensor
    scales: Tensor

    def __init__(self, bits: int, group: int, zeros: bool = False, is_embedding: bool = False) -> None:
        super().__init__()
        low, high = -(1 << (bits - 1)), 1 << (bits - 1)
        values = torch.randint(low, high, (6, 128))
        values[0, :2] = torch.tensor([low, high - 1])
        self.register_buffer("values", values.to(torch.int8))
        self.register_buffer("scales", torch.rand(6, 128 // group) / 64 + 2.0**-9)
        self.register_buffer("zeros", torch.randint(low, high, (6, 128 // group)) if zeros else None)
        self.function = F.embedding if is_embedding else F.linear
        self.group = group

    def forward(self, x: Tensor) -> Tensor:
        """Returns the products, or the rows."""
        weight = AFFINE.dequantize_affine(self.values, [1, self.group], self.scales, self.zeros, torch.int8)
        return self.function(x, weight)  # type: ignore[no-any-return]


class QuantizedMixture(nn.Module):
    """The sum of the results of two of four experts, whose matrices are quantized.

    Args:
        bits: of a value.
        zeros: whether there are zero points.
        is_left: whether matrices are the left operands of products.
    """

    values: Tensor
    scales: Tensor

    def __init__(self, bits: int, zeros: bool = False, is_left: bool = False) -> None:
        super().__init__()
        low, high = -(1 << (bits - 1)), 1 << (bits - 1)
        values = torch.randint(low, high, (4, 6, 64))
        values[0, 0, :2] = torch.tensor([low, high - 1])
        self.register_buffer("values", values.to(torch.int8))
        self.register_buffer("scales", torch.rand(4, 6, 2) / 64 + 2.0**-9)
        self.register_buffer("zeros", torch.randint(low, high, (4, 6, 2)) if zeros else None)
        self.is_left = is_left

    def forward(self, x: Tensor, scores: Tensor) -> Tensor:
        """Returns the sums."""
        matrices = AFFINE.dequantize_affine(self.values, [1, 1, 32], self.scales, self.zeros, torch.int8)
        chosen = scores.topk(2).indices.flatten()
        rows = x.repeat_interleave(2, 0)
        if self.is_left:
            found = torch.bmm(matrices[chosen], rows.unsqueeze(2))
        else:
            found = torch.bmm(rows.unsqueeze(1), matrices[chosen].mT)
        return found.view(x.shape[0], 2, -1).sum(1)


def _quantized() -> Iterator[Case]:
    x, scores = floats(3, 64), floats(3, 4, seed=1)
    for bits, zeros, is_left in ((4, False, False), (8, True, False), (3, True, True)):
        name = f"a mixture of {bits} bits"
        yield _case(name, partial(QuantizedMixture, bits, zeros, is_left), (x, scores))
    yield _case("a mixture of 4 bits, fp16", partial(QuantizedMixture, 4), (x, scores), options=HALF)
    x = floats(3, 128)
    for bits in (2, 3, 4, 5, 6, 8):
        group = 128 if bits > 5 else 32 if bits < 4 else 64
        yield _case(f"{bits} bits", partial(Quantized, bits, group), (x,))
    yield _case("zero points", partial(Quantized, 4, 32, zeros=True), (x,))
    yield _case("4 bits, fp16", partial(Quantized, 4, 32), (x,), options=HALF)
    yield _case("rows of 4 bits", partial(Quantized, 4, 32, is_embedding=True), (torch.tensor([3, 0, 5]),))
    yield _case("groups of 16", partial(Quantized, 4, 16), (x,))


class Counter(nn.Module):
    """Counts its calls, and keeps a value of the call before."""

    calls: Tensor
    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("last", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the scaled input, and twice what was kept."""
        last = self.last * 2
        self.calls.add_(1)
        self.last.copy_(x + 1)
        return x * self.calls, last


class Cache(nn.Module):
    """Attention over the rows that were written so far.

    Args:
        wraps: whether rows are written again after the last one.
    """

    keys: Tensor
    rows: Tensor

    def __init__(self, wraps: bool = False) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 8, 4))
        self.register_buffer("rows", torch.arange(8))
        self.project = nn.Linear(8, 8)
        self.wraps = wraps

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Writes the projected rows from `start` on, and attends to them."""
        positions = torch.arange(x.shape[1]) + start
        heads = self.project(x).view(1, -1, 2, 4).transpose(1, 2)
        written = positions % 8 if self.wraps else positions
        keys = self.keys.index_copy_(2, written, heads)
        mask = self.rows[None] <= positions[:, None]
        return F.scaled_dot_product_attention(heads, keys, keys, mask)


class Caches(nn.Module):
    """Two layers of attention of four heads, to caches of two heads."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("keys_0", "values_0", "keys_1", "values_1"):
            self.register_buffer(name, torch.zeros(1, 2, 12, 4))
        self.project = nn.ModuleList(nn.Linear(16, 32) for _ in range(2))

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Writes rows from `start` on, and attends to those up to each."""
        positions = torch.arange(x.shape[1]) + start
        mask = torch.arange(12)[None] <= positions[:, None]
        for layer, project in enumerate(self.project):
            heads = project(x).view(1, -1, 8, 4).transpose(1, 2)
            keys = getattr(self, f"keys_{layer}").index_copy_(2, positions, heads[:, :2])
            values = getattr(self, f"values_{layer}").index_copy_(2, positions, heads[:, 2:4])
            found = F.scaled_dot_product_attention(heads[:, 4:], keys, values, mask, enable_gqa=True)
            x = x + found.transpose(1, 2).flatten(2)
        return x


def _stateful() -> Iterator[Case]:
    yield _case("a counter", Counter, *((floats(2, 3, seed=seed),) for seed in range(3)))
    shapes = ({1: Dim("tokens", min=1, max=5)}, None)
    for wraps in (False, True):
        # within the cache, up to its end, and, without a modulus, beyond it
        parts = ((0, 3), (3, 5), (7, 1), (6, 2)) if wraps else ((0, 3), (3, 1), (4, 4), (6, 3))
        calls = ((floats(1, count, 8, seed=start), torch.tensor([start])) for start, count in parts)
        yield _case(f"a cache{', again' * wraps}", partial(Cache, wraps), *calls, dynamic_shapes=shapes)
    # two texts, the second of which goes back
    parts = [(0, 3), (3, 1), (4, 5), (9, 3), (0, 4), (4, 1), (5, 2), (4, 3)]
    calls = [(floats(1, count, 16, seed=start + count), torch.tensor([start])) for start, count in parts]
    negative = floats(1, 2, 16), torch.tensor([-1])
    for name, own, given in (("", {}, calls), (", fp16", HALF, [*calls[:2], negative, *calls[2:]])):
        options = {"kv_cache": "runtime", **own}
        yield _case(f"a cache of the runtime{name}", Caches, *given, dynamic_shapes=shapes, options=options)


def _dynamic() -> Iterator[Case]:
    batch, length = Dim("batch", min=1, max=6), Dim("length", min=2, max=9)
    sizes = ((3, 5), (1, 2), (6, 9))
    block = lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)  # noqa: E731
    calls = [(floats(*size, 8),) for size in sizes]
    yield _case("texts of any length", block, *calls, dynamic_shapes=({0: batch, 1: length},))
    half = Dim("half", min=2, max=5)
    pictures = [(floats(count, 3, 2 * rows, 7),) for count, rows in ((2, 3), (1, 2), (6, 5))]
    network = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(3, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    yield _case("images of any size", network, *pictures, dynamic_shapes=({0: batch, 2: 2 * half},))

    def shapes(x: Tensor) -> tuple[Tensor, ...]:
        count, length, _ = x.shape
        ones = torch.ones(length, count).tril() @ x[..., 0]
        padded = F.pad(x, (0, 0, length - 1, count)) * 2
        halves = torch.full((length // 2 + 1,), 0.5) * x[0, 0, 0]
        return x[:, 1:].exp(), x.flatten() + 1, torch.arange(length) * count, ones, padded, halves

    def writes(x: Tensor, index: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        rows = index[0, :, 0]
        one = x.index_put((torch.arange(x.shape[0])[:, None], rows), torch.tensor(2.0))
        return x.exp().scatter(1, index, y), x.scatter(1, index, 3.0), x.index_fill(1, rows, 0.5), one

    scattered = [
        (floats(count, 9, 4), ints(count, length, 4, high=9), floats(count, length, 4, seed=1))
        for count, length in sizes
    ]
    written = ({0: batch}, {0: batch, 1: length}, {0: batch, 1: length})
    yield _function("writes", writes, *scattered, dynamic_shapes=(written,))
    calls = [(floats(*size, 8),) for size in ((3, 5), (1, 3), (6, 9))]
    length = Dim("length", min=3, max=9)
    yield _function("sizes", shapes, *calls, dynamic_shapes=(({0: batch, 1: length},),))


CASES: Final = (*_layers(), *_operators(), *_control_flow(), *_quantized(), *_stateful(), *_dynamic())
