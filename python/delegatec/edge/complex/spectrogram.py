# SPDX-License-Identifier: Apache-2.0
"""Short-time Fourier transforms: matrix products on windows of a signal, and their inverses.

Arguments are those of ATen/native/SpectralOps.cpp; torch.export expands `center` of `torch.stft` to padding.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.complex.arithmetic import Rule
from delegatec.edge.complex.fourier import inverse_real, known_length, transform
from delegatec.edge.complex.pair import Pair, Part, filled, real_dtype
from delegatec.edge.complex.values import Values, is_complex

aten = torch.ops.aten


def _stft(values: Values, b: Builder, node: Node) -> Pair | Part | None:
    """[*, N] -> [*, frequencies, frames]; with a trailing dimension of 2 for real results."""
    bound = bind(node)
    signal = bound["self"]
    if bound.get("center") or bound.get("align_to_window") or is_complex(bound["window"]):
        return None
    count = known_length(values, node, bound["n_fft"])
    hop = count // 4 if bound["hop_length"] is None else bound["hop_length"]
    onesided = not is_complex(signal) if bound["onesided"] is None else bound["onesided"]
    kind = real_dtype(dtype_of(node))
    window = _window(values, b, node, count, kind)
    scale = count**-0.5 if bound["normalized"] else 1.0

    def windows(part: Part) -> Part:
        if not isinstance(part, Node):
            return part
        padded = filled(b, part, shape_of(signal), kind)
        return b.call(aten.mul.Tensor, b.call(aten.unfold.default, padded, -1, count, hop), window)

    frames = Pair(*(windows(part) for part in values.pair(signal)))
    bins = count // 2 + 1 if onesided else count
    spectrum = transform(values, b, node, frames, count, bins, forward=True, scale=scale)
    real, imag = (
        b.call(aten.transpose.int, part, -2, -1) if isinstance(part, Node) else part for part in spectrum
    )
    if is_complex(node):
        return Pair(real, imag)
    assert isinstance(real, Node) and isinstance(imag, Node)
    return b.call(aten.stack.default, [real, imag], -1)


def _istft(values: Values, b: Builder, node: Node) -> Part | None:
    """[*, frequencies, frames] -> [*, N]: the overlapping frames, divided by the sum of their windows."""
    bound = bind(node)
    spectrum = bound["self"]
    onesided = bound["onesided"] is not False
    if is_complex(node) or not onesided or is_complex(bound["window"]):
        return None
    count = known_length(values, node, bound["n_fft"])
    hop = count // 4 if bound["hop_length"] is None else bound["hop_length"]
    kind = dtype_of(node)
    window = _window(values, b, node, count, kind)
    scale = count**-0.5 if bound["normalized"] else 1 / count
    real, imag = (b.call(aten.transpose.int, part, -2, -1) for part in values.tensors(b, spectrum, kind))
    frames = inverse_real(values, b, node, Pair(real, imag), count, scale)
    assert isinstance(frames, Node)
    signal = _overlapped(b, b.call(aten.mul.Tensor, frames, window), count, hop)
    squares = b.call(aten.mul.Tensor, window, window)
    envelope = _overlapped(b, b.call(aten.expand.default, squares, [*shape_of(frames)[-2:]]), count, hop)
    start = count // 2 if bound["center"] else 0
    full = shape_of(signal)[-1]
    end = start + bound["length"] if bound["length"] is not None else full - start
    if not isinstance(end, int) or not isinstance(full, int):
        return None
    signal, envelope = (
        b.call(aten.slice.Tensor, padded, -1, start, min(end, full)) for padded in (signal, envelope)
    )
    result = b.call(aten.div.Tensor, signal, envelope)
    return b.call(aten.constant_pad_nd.default, result, [0, end - full]) if end > full else result


def _window(values: Values, b: Builder, node: Node, count: int, kind: torch.dtype) -> Node:
    """Returns the window of a call, padded with zeros on both sides: [count]."""
    bound = bind(node)
    length = count if bound["win_length"] is None else bound["win_length"]
    window = filled(b, 1.0 if bound["window"] is None else bound["window"], [length], kind)
    left = (count - length) // 2
    if length == count:
        return window
    return b.call(aten.constant_pad_nd.default, window, [left, count - length - left])


def _overlapped(b: Builder, frames: Node, count: int, hop: int) -> Node:
    """[*, T, count] -> [*, count + hop (T - 1)]: the sum of frames, shifted by `hop` each.

    Frames are split into chunks of `hop` elements; the n-th chunks of all frames form a signal.
    """
    pieces = -(-count // hop)
    if pieces * hop != count:
        frames = b.call(aten.constant_pad_nd.default, frames, [0, pieces * hop - count])
    *batch, rows, _ = shape_of(frames)
    total = None
    for piece in range(pieces):
        part = b.call(aten.slice.Tensor, frames, -1, piece * hop, (piece + 1) * hop)
        part = b.call(aten.constant_pad_nd.default, part, [0, 0, piece, pieces - 1 - piece])
        total = part if total is None else b.call(aten.add.Tensor, total, part)
    assert total is not None
    flat = b.call(aten.view.default, total, [*batch, (rows + pieces - 1) * hop])
    return b.call(aten.slice.Tensor, flat, -1, 0, count + hop * (rows - 1))


RULES: Final[dict[str, Rule]] = {"stft": _stft, "istft": _istft}
