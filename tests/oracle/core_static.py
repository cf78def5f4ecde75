# SPDX-License-Identifier: Apache-2.0
"""Models of static shapes without state."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle import core_functions as functions
from tests.oracle.core_case import noise, of_function, of_module

X = noise(2, 3, 4)
IMAGE = noise(1, 3, 8, 8)
SEQUENCE = noise(1, 3, 8)


class Constants(nn.Module):
    """Returns constants of every kind that is stored in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("empty", torch.ones(0, 3))
        self.register_buffer("special", torch.tensor([float("nan"), float("inf"), -0.0]))
        self.register_buffer("brain", torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("zero_dim", torch.tensor(7))
        self.register_buffer("transposed", torch.arange(6.0).view(2, 3).T)
        self.register_buffer("large", torch.arange(20000.0).view(200, 100))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        kept = (self.empty, self.special, self.brain, self.flags, self.zero_dim, self.transposed, self.large)
        return (*kept, self.large.view(-1), self.large.T, torch.cat([self.empty, x]))


class TiedWeights(nn.Module):
    """One weight under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids))


_NO_LAST_ROW = torch.tensor([[True, False, True, True, False]] * 3 + [[False] * 5])

STATIC = {
    "attention": of_function(
        functions.attend,
        *(noise(2, 2, 4, 8), noise(2, 2, 5, 8, seed=1), _NO_LAST_ROW),
        torch.zeros(4, 5).masked_fill(~_NO_LAST_ROW, -torch.inf),
    ),
    "multihead_attention": of_module(lambda: nn.MultiheadAttention(4, 2), X, X, X),
    "transformer_layer": of_module(lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), X),
    "gru": of_module(lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True), X),
    "gru_cell": of_module(lambda: nn.GRUCell(4, 5), X[0]),
    "lstm": of_module(lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True), X),
    "lstm_unbatched": of_module(lambda: nn.LSTM(4, 5, proj_size=2, bias=False), X[0]),
    "lstm_cell": of_module(lambda: nn.LSTMCell(4, 5), X[0]),
    "rnn": of_module(lambda: nn.RNN(4, 5, nonlinearity="relu"), X),
    "conv1d": of_module(lambda: nn.Conv1d(3, 4, 3), SEQUENCE),
    "conv2d": of_module(lambda: nn.Conv2d(3, 4, 3, dilation=2), IMAGE),
    "conv2d_same": of_module(lambda: nn.Conv2d(3, 4, 3, padding="same"), IMAGE),
    "conv2d_depthwise": of_module(lambda: nn.Conv2d(3, 6, 3, 2, 1, groups=3, bias=False), IMAGE),
    "conv2d_reflect": of_module(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), IMAGE),
    "conv2d_circular": of_module(lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), IMAGE),
    "conv2d_unbatched": of_module(lambda: nn.Conv2d(3, 4, 3), IMAGE[0]),
    "conv2d_after_pad": of_module(
        lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 4, 3)), IMAGE
    ),
    "conv_transpose1d": of_module(lambda: nn.ConvTranspose1d(3, 4, 3), SEQUENCE),
    "conv_transpose2d": of_module(lambda: nn.ConvTranspose2d(3, 3, 3, 2, 1, 1, groups=3), IMAGE),
    "max_pool": of_module(lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), IMAGE),
    "max_pool3d": of_module(lambda: nn.MaxPool3d(2), noise(1, 2, 4, 4, 4)),
    "max_pool_of_nan": of_module(lambda: nn.MaxPool2d(3, 2, 1), (IMAGE > 1).float() / (IMAGE < 1)),
    "max_pool1d": of_module(lambda: nn.MaxPool1d(2), SEQUENCE),
    "avg_pool": of_module(lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "adaptive_pools": of_function(
        lambda x: [F.adaptive_avg_pool2d(x, size) for size in (1, (2, 4), 3, (None, 1))], IMAGE
    ),
    "adaptive_max_pool": of_module(lambda: nn.AdaptiveMaxPool2d(2), IMAGE),
    "batch_norm": of_module(lambda: nn.BatchNorm2d(3), IMAGE),
    "batch_norm_plain": of_module(lambda: nn.BatchNorm1d(3, affine=False), SEQUENCE),
    "batch_norm_of_batch": of_module(lambda: nn.BatchNorm2d(3, track_running_stats=False), IMAGE),
    "instance_norm": of_module(lambda: nn.InstanceNorm2d(3, affine=True), IMAGE),
    "group_norm": of_module(lambda: nn.GroupNorm(3, 3), IMAGE),
    "layer_norm": of_module(lambda: nn.LayerNorm((3, 4), elementwise_affine=False), X),
    "rms_norm": of_module(lambda: nn.RMSNorm(4), X),
    "norms_of_halves": of_function(
        lambda x: (torch.linalg.vector_norm(x), F.normalize(x), F.cosine_similarity(x[0], x[1], dim=0)),
        (noise(2, 300, 4) * 60).half(),
    ),
    "indices_of_nan": of_function(
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        IMAGE.masked_fill(noise(1, 3, 8, 8, seed=1) > 0.3, torch.nan),
    ),
    "norms_far_from_zero": of_function(functions.normalize, noise(3, 4, 40) + 10),
    "weight_norm": of_module(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), X),
    "softmaxes": of_function(
        lambda x: (x.softmax(1), x.log_softmax(-1), F.softmin(x, 1), F.softmax(x, 1, dtype=torch.float64)), X
    ),
    "losses": of_function(
        lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y)), X, X * 2
    ),
    "upsample": of_function(
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, (3, 5), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=2, mode="bicubic"),
        ),
        IMAGE,
    ),
    "pixels": of_function(lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), noise(1, 4, 2, 2)),
    "grid_sample": of_function(
        lambda x, grid: F.grid_sample(x, grid, align_corners=False),
        IMAGE,
        noise(1, 4, 4, 2).clamp(-1, 1),
    ),
    "pads": of_function(
        lambda x: [F.pad(x, (1, 2), mode=mode) for mode in ("constant", "reflect", "replicate", "circular")],
        SEQUENCE,
    ),
    "moves": of_function(functions.everything_moves, X),
    "indexing": of_function(functions.index, X, torch.tensor([2, 0, 1])),
    "scatter": of_function(functions.scatter, X, torch.arange(24).view(2, 3, 4) % 3),
    "reductions": of_function(functions.reduce, X),
    "products": of_function(functions.multiply, X),
    "linear_of_permuted": of_function(lambda x, w: F.linear(x.permute(0, 2, 1), w), X, noise(5, 3)),
    "numbers": of_function(functions.mixed_scalars, X),
    "blends": of_function(functions.blend, X),
    "float16": of_function(functions.of_dtype, X.half()),
    "bfloat16": of_function(functions.of_dtype, X.bfloat16()),
    "float64": of_function(functions.of_dtype, X.double()),
    "integers": of_function(
        functions.integers,
        torch.arange(6),
        torch.arange(6, dtype=torch.int32) - 3,
        torch.arange(6, dtype=torch.uint8),
    ),
    "booleans": of_function(functions.booleans, torch.tensor([True, False])),
    "creation": of_function(functions.make, X),
    "in_place": of_function(functions.in_place, X[0], noise(3, 4, seed=2)),
    "zero_dim": of_function(
        lambda x: (x + 1, x * x, x.view(1), x[None], x.expand(3), x.exp(), x.sum(), x.reshape(())),
        torch.tensor(2.0),
    ),
    "empty": of_function(
        lambda x: (x + 1, x.sum(), torch.cat([x, torch.ones(1, 3)]), x.view(3, 0), x.relu()), torch.ones(0, 3)
    ),
    "nested": of_function(
        lambda d, items: ({"o": d["a"] + items[0][1]}, [items[1], 3, None, 2.5, True, "text"]),
        *({"a": X}, [(X, X * 2), X + 1]),
    ),
    "keywords": of_function(
        lambda x, *, scale, unused=None: {"y": x * scale, "z": (x, [None, scale])},
        X,
        kwargs={"scale": torch.tensor(2.0)},
    ),
    "separate_outputs": of_function(
        lambda x: (x, x, x.view(-1), x + 1, (x + 1).view(-1), *(x * 2).split(1)), torch.ones(2, 16)
    ),
    "constants": of_module(Constants, torch.ones(2, 3)),
    "tied_weights": of_module(TiedWeights, torch.tensor([[1, 2, 9]])),
}
