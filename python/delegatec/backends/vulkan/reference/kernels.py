# SPDX-License-Identifier: Apache-2.0
"""The runtime's shaders: which exist, and which tensors they bind.

An operator builds a shader's name from storage types and dtypes, and the runtime aborts if it is unknown.
Otherwise it binds tensors in order without checks, so that a buffer instead of a texture, or int32 instead of
float16, gives garbage.

The tables in `shaders` list them, read off the runtime's templates (backends/vulkan/runtime/graph/ops/glsl
of ExecuTorch 1.4.1). They consist of lines of tensors, of variants (|), then of names. Tensors are
storage.dtype, with ! if written, where a number stands for the word of the variant at that index. Variants
are the product of their columns; there may be several, after ";". A name has a $ for each word of the
variant.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Final, NamedTuple

from delegatec.backends.vulkan.reference.shaders import (
    attention,
    convolution,
    elements,
    moves,
    products,
    quantized,
    reductions,
)

_TABLES: Final = "".join(
    subject.TABLE for subject in (attention, convolution, elements, moves, products, quantized, reductions)
)


class Binding(NamedTuple):
    """A tensor of a shader.

    Attributes:
        storage: "buffer", "texture3d" or "texture2d".
        dtype: the shaders' name of a dtype: "float", "half", "int32", "int8", "uint8".
        written: whether it is a result.
    """

    storage: str
    dtype: str
    written: bool


def bindings_of(kernel: str) -> tuple[Binding, ...] | None:
    """Returns the tensors of a shader in order, or None if it does not exist."""
    return _kernels().get(kernel)


@cache
def _kernels() -> dict[str, tuple[Binding, ...]]:
    found: dict[str, tuple[Binding, ...]] = {}
    tensors, variants = "", ""
    for line in _TABLES.splitlines():
        if line.startswith("|"):
            variants += line[1:]
            continue
        if not line.startswith("  "):
            tensors, variants = line, ""
            continue
        for words in _combinations(variants):
            bindings = tuple(_binding(text, words) for text in tensors.split())
            for pattern in line.split():
                first, *rest = pattern.split("$")
                found["".join([first, *(a + b for a, b in zip(words, rest, strict=True))])] = bindings
    return found


def _combinations(variants: str) -> list[tuple[str, ...]]:
    return [
        words
        for alternative in variants.split(";")
        for words in product(*(column.split(",") for column in alternative.split()))
    ]


def _binding(text: str, words: tuple[str, ...]) -> Binding:
    storage, dtype = (
        words[int(word) - 1] if word.isdigit() else word for word in text.rstrip("!").split(".")
    )
    return Binding(storage, dtype, text.endswith("!"))
