# SPDX-License-Identifier: Apache-2.0
"""Mistakes that torch.export reports in its own words, or not at all, and only a reader of its file would."""

from __future__ import annotations

from typing import Final

from mistake import Mistake, export

_PACK: Final = (
    "rnn = nn.utils.rnn\n"
    "packed = rnn.pack_padded_sequence(x[..., None], torch.tensor([3, 2]), batch_first=True)\n"
)

TRACING: Final[tuple[Mistake, ...]] = (
    export(
        "makes a tensor of 4 TB",
        "DC110",
        "out of memory",
        "samples = 0",
        forward="return torch.zeros(2**40) + x.sum()",
    ),
    export(
        "imports a library that is not declared in forward",
        "DC103",
        'no module named "einops"',
        "pkg/net.py",
        "add the py_library",
        forward="import einops\nreturn einops.rearrange(x, 'a b -> b a')",
    ),
    export(
        "packs sequences",
        "DC119",
        "packs sequences of several lengths",
        "mask the results by the lengths",
        forward=f"{_PACK}return packed.data",
    ),
    export(
        "passes packed sequences through an LSTM",
        "DC119",
        "packs sequences of several lengths",
        init="self.lstm = nn.LSTM(1, 4, batch_first=True)",
        forward=f"{_PACK}return rnn.pad_packed_sequence(self.lstm(packed)[0])[0]",
    ),
    export(
        "uses nested tensors",
        "DC119",
        "uses nested tensors",
        "pad the items to one size",
        forward="return torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0)",
    ),
    export(
        "uses nested tensors with a jagged layout",
        "DC111",
        "as nested tensors do",
        forward="items = torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged)\n"
        "return items.to_padded_tensor(0.0)",
    ),
    export(
        "gives an example of size 1 for a dynamic dimension",
        "DC113",
        "it fixes b at 1, its size in the example",
        "at least 2 in this dimension",
        arguments="Net(), (torch.ones(1, 3),), dynamic_shapes={'x': {0: Dim('b', max=8)}}",
    ),
    export(
        "gives an example of size 1 for a dimension of Dim.DYNAMIC",
        "DC113",
        "of size 1 in the example inputs",
        "at least 2 in this dimension",
        arguments="Net(), (torch.ones(1, 3),), dynamic_shapes={'x': {0: Dim.DYNAMIC(max=8)}}",
    ),
    export(
        "declares a size dynamic up to more rows than a table has",
        "DC113",
        "fails for sizes in the ranges of dynamic_shapes, input 0: [9, 3]: IndexError",
        "narrow the range",
        init="self.positions = nn.Embedding(8, 3)",
        forward="return x + self.positions(torch.arange(x.shape[0]))",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes={'x': {0: Dim('rows', max=9)}}",
    ),
    export(
        "makes the length of a GRU's sequences dynamic, strictly",
        "DC113",
        "it fixes t at 2",
        "omit strict=True",
        init="self.gru = nn.GRU(3, 4, batch_first=True)",
        forward="return self.gru(x[None])[0]",
        arguments="Net(), (torch.ones(2, 3),), dynamic_shapes={'x': {0: Dim('t', max=8)}}, strict=True",
    ),
    export(
        "calls vmap in a body of control flow",
        "DC111",
        "calls torch.vmap where torch.export cannot follow it",
        forward="return torch.cond(x.sum() > 0, torch.vmap(torch.sin), torch.cos, (x,))",
    ),
    export(
        "names a keyword argument by a keyword of Python",
        "DC108",
        "is 'class'",
        "an identifier",
        arguments="Net(), (torch.ones(2, 3),), {'class': torch.ones(1)}",
    ),
    export(
        "passes a number of more than 64 bits",
        "DC109",
        "example_inputs[1] is 1180591620717411303424",
        arguments="Net(), (torch.ones(2, 3), 2**70)",
    ),
    export(
        "returns a condition of sizes",
        "DC119",
        "output 1 is a condition of sizes",
        forward="return x, x.shape[0] > 3",
        arguments="Net(), (torch.ones(4, 3),), dynamic_shapes={'x': {0: Dim('b', min=2, max=8)}}",
    ),
    export(
        "computes with flex_attention",
        "DC119",
        "cannot store the call of torch.ops.higher_order.flex_attention",
        forward="from torch.nn.attention.flex_attention import flex_attention\n"
        "return flex_attention(x[None, None], x[None, None], x[None, None])",
        arguments="Net(), (torch.ones(16, 16),)",
    ),
)
TABLE: Final = {"In what torch.export traces": TRACING}
