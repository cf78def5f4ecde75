# SPDX-License-Identifier: Apache-2.0
"""Elements at many constant indices of a dimension, as a product with a matrix of zeros and ones."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.edge.arguments import bind, positive
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites.images import emit
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.value import table, value_of

_LARGEST: Final = 1 << 20
"""Its maximum size. Flipping 64 rows of 512, 1024 and 2048 elements by it takes 1.0, 1.9 and 4.3 times
as long as the portable kernel, and the last matrix is 16 MB of the file."""
_LIMIT: Final = (
    "Constant indices form at most 24 ranges, or count x size <= 2^20: a one-hot product selects them."
)


def _by_product(builder: Builder, node: Node) -> Node | Refusal | None:
    bound = bind(node)
    x, index = value_of(builder, bound["self"]), builder.facts.constant(bound["index"])
    dim = positive(bound["dim"], x.rank)
    size = x.shape[dim]
    if index is None or not isinstance(size, int):
        return None
    count = index.numel()
    if count * size > _LARGEST:
        return Refusal("constant", f"{count} indices of {size} elements. {_LIMIT}")
    source = x.to(torch.float32) if x.dtype == torch.bool else x
    chosen = torch.zeros(count, size, dtype=source.dtype)
    chosen[range(count), index.reshape(-1)] = 1.0
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    return (
        emit(XNNPACK.matmul_along_dim.default, source, table(builder, chosen), dim, shape=shape)
        .to(x.dtype)
        .node
    )


REWRITES: Final = (
    Rewrite(
        torch.ops.aten.index_select.default,
        _by_product,
        (HAS_AXIS,),
        note="a product with zeros and ones for many ranges, in which an infinity makes others NaN",
        computes=False,
    ),
)
