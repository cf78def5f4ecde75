# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a module that is to run, not to train, and in the shapes and dtypes that it computes with."""

from __future__ import annotations

from typing import Final

from mistake import HEAD, Mistake, export

_IMAGE: Final = "Net(), (torch.ones(1, 3, 8, 8),)"
_TRAINS: Final = (
    HEAD
    + """
class Net(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(True)

def build():
    return delegatec.Model(Net(3), (torch.ones(2, 3),))
"""
)

TRAINING: Final[tuple[Mistake, ...]] = (
    export(
        "calls train() in forward",
        "DC118",
        "do not call train()",
        "pkg/net.py:12",
        init="self.b = nn.BatchNorm1d(3)",
        forward="self.train()\nreturn self.b(x)",
    ),
    export("keeps a layer in training mode", "DC118", "aten.batch_norm", source=_TRAINS),
    export(
        "normalizes with training=True",
        "DC118",
        "aten.batch_norm",
        forward="mean, var = torch.zeros(3), torch.ones(3)\n"
        "return nn.functional.batch_norm(x, mean, var, training=True)",
    ),
    export(
        "calls dropout with its default", "DC118", "aten.dropout", forward="return nn.functional.dropout(x)"
    ),
    export(
        "applies RReLU with training=True",
        "DC118",
        "aten.rrelu",
        forward="return nn.functional.rrelu(x, training=True)",
    ),
    export(
        "computes a gradient in forward",
        "DC110",
        "computes gradients",
        forward="y = (x**2).sum()\nreturn torch.autograd.grad(y, x)[0]",
    ),
    export(
        "computes a loss of labels that it does not get",
        "DC110",
        "'labels'",
        forward="return nn.functional.cross_entropy(x, self.labels)",
    ),
)

SHAPES: Final[tuple[Mistake, ...]] = (
    export(
        "flattens an image without a batch",
        "DC110",
        "cannot be multiplied",
        "pkg/net.py:11",
        init="self.c, self.l = nn.Conv2d(3, 4, 3), nn.Linear(144, 2)",
        forward="return self.l(self.c(x).flatten(1))",
        arguments="Net(), (torch.ones(3, 8, 8),)",
    ),
    export(
        "passes an image with channels last",
        "DC110",
        "8 channels",
        init="self.c = nn.Conv2d(3, 4, 3)",
        forward="return self.c(x)",
        arguments="Net(), (torch.ones(1, 8, 8, 3),)",
    ),
    export("views a transposed tensor", "DC110", ".reshape(", forward="return x.t().view(6)"),
    export("concatenates different sizes", "DC110", "size 2", forward="return torch.cat([x, x[:, :2]])"),
    export("indexes beyond the end", "DC110", "out of bounds", forward="return x[:, 5]"),
    export("unpacks too many rows", "DC110", "expected 3", forward="a, b, c = x\nreturn a"),
    export("pools to nothing", "DC110", "max_pool1d", forward="return nn.functional.max_pool1d(x, 5)"),
    export(
        "applies a filter that is larger than the image",
        "DC110",
        "(9 x 9)",
        init="self.c = nn.Conv2d(3, 1, 9)",
        forward="return self.c(x)",
        arguments=_IMAGE,
    ),
    export("divides a dimension by heads", "DC106", "num_heads", init="self.a = nn.MultiheadAttention(3, 2)"),
)

DTYPES: Final[tuple[Mistake, ...]] = (
    export(
        "passes floats as tokens",
        "DC110",
        "indices",
        init="self.e = nn.Embedding(10, 4)",
        forward="return self.e(x)",
    ),
    export(
        "passes tokens beyond the vocabulary",
        "DC110",
        "index out of range",
        init="self.e = nn.Embedding(10, 4)",
        forward="return self.e(x)",
        arguments="Net(), (torch.tensor([[12]]),)",
    ),
    export(
        "passes bytes of an image",
        "DC110",
        "unsigned char",
        init="self.c = nn.Conv2d(3, 4, 3)",
        forward="return self.c(x)",
        arguments="Net(), (torch.ones(1, 3, 8, 8, dtype=torch.uint8),)",
    ),
    export("masks with integers", "DC110", "boolean masks", forward="return x.masked_fill(x.long(), 0)"),
    export("indexes by floats", "DC110", "IndexError", forward="return x[:, torch.tensor([0.0, 1.0])]"),
    export(
        "adds floats to a buffer of integers",
        "DC110",
        "Long",
        init="self.register_buffer('n', torch.zeros(3, dtype=torch.int64))",
        forward="self.n += x.sum(0)\nreturn x",
    ),
    export("passes complex numbers", "DC109", "view_as_real", arguments="Net(), (torch.ones(2) + 1j,)"),
    export("passes uint16", "DC109", "uint16", arguments="Net(), (torch.ones(2, dtype=torch.uint16),)"),
    export(
        "passes a number of numpy",
        "DC109",
        "use .item()",
        arguments="Net(), (torch.ones(2), __import__('numpy').float32(1))",
    ),
)

TABLE: Final = {
    "In training mode": TRAINING,
    "In shapes": SHAPES,
    "In dtypes": DTYPES,
}
