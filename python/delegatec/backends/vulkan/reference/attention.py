# SPDX-License-Identifier: Apache-2.0
"""Attention, with and without a cache of keys and values, and rotary embeddings. Tensors pack the width."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.vulkan_graph import IntT, MemoryLayout, SymIntT

from delegatec.backends.vulkan.reference.call import Call, must_pack
from delegatec.backends.vulkan.reference.elementwise import wide
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import WIDTH, Constant, Tensor, reject

_RANK: Final = 4
_TEXEL: Final = 4


def _rank(call: Call, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dim != _RANK:
            reject(f"{call.name} of {tensor}, which must have {_RANK} dimensions")
        if tensor.is_buffer and tensor.sizes[-1] % _TEXEL:
            reject(f"{call.name} of {tensor}, a buffer whose rows are not whole texels")
    must_pack(call.name, WIDTH, *tensors)


def _fused(run: Run, call: Call) -> None:
    q, k, v, out = call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(5)
    for tensor in (q, k, v):
        if tensor.dim != _RANK:
            reject(f"{call.name} of {tensor}, which must have {_RANK} dimensions")
    must_pack(call.name, WIDTH, q, k, v, out)
    mask = None if call.is_none(3) else call.tensor(3)
    batch, heads, rows, depth = q.sizes
    columns = k.sizes[2]
    if k.sizes != [batch, heads, columns, depth] or v.sizes != k.sizes:
        reject(f"{call.name} of {q}, {k} and {v}")
    scale = 1 / math.sqrt(depth) if call.is_none(4) else call.float32(4)
    bias = "" if mask is None else "_bias"
    qk = "_".join([f"fused_sdpa_qk_tiled{bias}", q.storage, k.storage, q.shader_dtype])
    run.kernel(qk, None, q, k, *([mask] if mask else []))
    run.kernel("_".join(["fused_sdpa_softmax", out.storage, q.shader_dtype]))
    run.kernel("_".join(["fused_sdpa_av_tiled", out.storage, v.storage, out.shader_dtype]), out, None, v)
    if q.storage != out.storage:
        reject(f"{call.name} of {q} to {out}, which have other storage")
    if out.is_buffer and (columns % _TEXEL or depth % _TEXEL):
        # It reads and writes rows of whole texels.
        reject(f"{call.name} in buffers of {columns} keys of {depth} elements; both must fill texels")
    weights = wide(run.read(q)) @ wide(run.read(k)).transpose(-1, -2) * scale
    if mask is not None:
        _check_mask(call, mask, [batch, heads, rows, columns])
        weights = weights + wide(run.read(mask))
    probabilities = torch.softmax(weights, -1).to(q.dtype)
    run.write(out, wide(probabilities) @ wide(run.read(v)))
    out.carry_pad(v)


def _check_mask(call: Call, mask: Tensor, shape: list[int]) -> None:
    must_pack(call.name, WIDTH, mask)
    padded = [1] * (_RANK - mask.dim) + mask.sizes
    if padded[3] != shape[3] or any(a not in (1, b) for a, b in zip(padded, shape, strict=True)):
        reject(f"{call.name} with the mask {mask} for weights of the shape {shape}")


def _position(call: Call, index: int) -> int:
    if not isinstance(call.content(index), IntT | SymIntT):
        reject(f"argument {index} of {call.name} is neither Int nor SymInt")
    return call.integer(index)


def _update(run: Run, call: Call, value: Tensor, cache: Tensor, position: int) -> None:
    _rank(call, value, cache)
    if value.sizes[0] != 1 or cache.sizes[0] != 1 or value.sizes[2:] != cache.sizes[2:]:
        reject(f"{call.name} of {cache} by {value}")
    run.kernel(
        "_".join(["sdpa_kv_cache_update", cache.storage, value.storage, value.shader_dtype]), cache, value
    )
    if position < 0:
        reject(f"{call.name} at position {position}")
    # Rows beyond the end are not written.
    count = max(min(value.sizes[1], cache.sizes[1] - position), 0)
    updated = run.read(cache).clone()
    updated[:, position : position + count] = run.read(value)[:, :count].to(cache.dtype)
    run.write(cache, updated, resizes=False)


def _update_cache(run: Run, call: Call) -> None:
    _update(run, call, call.tensor(0), call.tensor(1), _position(call, 2))


def _attend(run: Run, call: Call, tensors: tuple[Tensor, Tensor, Tensor, Tensor], first: int) -> None:
    """Causal attention to a cache.

    Args:
        run: the state.
        call: the operator.
        tensors: queries, caches, and the result.
        first: the index of the position, which a mask, dropout, causality and a scale follow.
    """
    q, keys, values, out = tensors
    _rank(call, q, keys, values, out)
    for index in (first + 1, first + 4):
        if not call.is_none(index):
            reject(f"{call.name} with a mask or a scale")
    if not call.is_none(first + 2) and call.scalar(first + 2) != 0:
        reject(f"{call.name} with dropout")
    if not call.is_none(first + 3) and not call.scalar(first + 3):
        reject(f"{call.name} that is not causal")
    _, rows, heads, depth = q.sizes
    if keys.sizes != values.sizes or keys.sizes[0] != 1 or q.sizes[0] != 1 or keys.sizes[3] != depth:
        reject(f"{call.name} of {q}, {keys} and {values}")
    if heads % keys.sizes[2]:
        reject(f"{call.name} of {heads} heads to {keys.sizes[2]}")
    kind = "coop" if rows == 1 else "tiled"
    dtype = q.shader_dtype
    run.kernel("_".join([f"sdpa_compute_attn_weights_{kind}", q.storage, keys.storage, dtype]), None, q, keys)
    run.kernel("_".join(["sdpa_attn_weights_softmax", q.storage, dtype]))
    name = "_".join([f"sdpa_compute_out_{kind}", out.storage, values.storage, out.shader_dtype])
    run.kernel(name, out, None, values)
    position = _position(call, first)
    length = position + rows
    if position < 0 or length > keys.sizes[1]:
        reject(f"{call.name} at position {position} of {rows} rows, of a cache of {keys.sizes[1]}")
    if q.is_buffer and _aligned(rows) * _aligned(length) > rows * keys.sizes[1]:
        reject(f"{call.name} in buffers of {rows} rows for {length} of {keys.sizes[1]} keys, which overflow")
    repeats = heads // keys.sizes[2]
    key, value = (
        wide(run.read(cache))[0, :length].repeat_interleave(repeats, 1).transpose(0, 1)
        for cache in (keys, values)
    )
    query = wide(run.read(q))[0].transpose(0, 1)
    weights = query @ key.transpose(-1, -2) / math.sqrt(depth)
    later = torch.arange(length)[None, :] > torch.arange(rows)[:, None] + position
    weights = weights.masked_fill(later, -math.inf)
    result = torch.softmax(weights, -1) @ value
    run.write(out, result.transpose(0, 1)[None])


def _aligned(size: int) -> int:
    return -(-size // _TEXEL) * _TEXEL


def _custom(run: Run, call: Call) -> None:
    _attend(run, call, (call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(8)), 3)


def _with_cache(run: Run, call: Call) -> None:
    """Attention with caches that the operator makes; they keep their values between runs."""
    q, out = call.tensor(0), call.tensor(11)
    caches = []
    for index in (3, 4):
        content: Any = call.content(index)
        if not isinstance(content, Tensor | Constant):
            reject(f"argument {index} of {call.name} is not a tensor")
        key = (call.name, tuple(call.ids), index)
        if key not in run.own:
            cache = Tensor(-1, content.dtype, list(content.sizes), q.storage, MemoryLayout.WIDTH_PACKED)
            cache.value = torch.full(cache.sizes, math.nan, dtype=cache.dtype)
            run.own[key] = cache
        caches.append(run.own[key])
    position = _position(call, 5)
    for index, cache in zip((1, 2), caches, strict=True):
        _update(run, call, call.tensor(index), cache, position)
    # The length of the sequence precedes the mask.
    ids = [*call.ids[:6], *call.ids[7:]]
    _attend(run, Call(run, call.name, ids), (q, caches[0], caches[1], out), 5)


# ---- rotary embeddings ----


def _rotated(call: Call, results: int) -> tuple[list[Tensor], list[Tensor]]:
    operands = [call.tensor(index) for index in range(4)]
    outs = call.tensors(results)
    if len(outs) != 2:
        reject(f"{call.name} with {len(outs)} results")
    q, k, cosines, sines = operands
    must_pack(call.name, WIDTH, *operands)
    if cosines.sizes != sines.sizes or min(q.dim, k.dim) < _RANK - 1 or cosines.dim != 2:
        reject(f"{call.name} of {q} and {k} with {cosines} and {sines}")
    if q.sizes[-1] != k.sizes[-1] or q.sizes[-3] != k.sizes[-3] or k.sizes[-2] > q.sizes[-2]:
        reject(f"{call.name} of {q} and {k}")
    for tensor in (q, k):
        if math.prod(tensor.sizes[:-3]) != 1 or tensor.sizes[-1] % _TEXEL:
            reject(f"{call.name} of {tensor}")
    return operands, outs


def _rotary(run: Run, call: Call) -> None:
    """Rotates pairs of adjacent elements."""
    (q, k, cosines, sines), outs = _rotated(call, 4)
    if q.sizes[-1] != 2 * cosines.sizes[-1] or q.sizes[-1] % (2 * _TEXEL) or cosines.sizes[0] < q.sizes[-3]:
        reject(f"{call.name} of {q} with {cosines}")
    run.kernel(kernel_name("rotary_embedding", outs[0]), *outs, q, k, cosines, sines)
    for x, out in zip((q, k), outs, strict=True):
        must_pack(call.name, WIDTH, out)
        cosine, sine = (wide(run.read(table))[: x.sizes[-3], None, :] for table in (cosines, sines))
        even, odd = torch.unflatten(wide(run.read(x)), -1, (-1, 2)).unbind(-1)
        rotated = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
        run.write(out, rotated.flatten(-2))


def _rotary_halves(run: Run, call: Call) -> None:
    """Rotates pairs of elements of both halves; elements after them are copied."""
    (q, k, cosines, sines), outs = _rotated(call, 5)
    size, start = cosines.sizes[-1], _position(call, 4)
    if size > q.sizes[-1] or size % (2 * _TEXEL) or cosines.sizes[0] < start + q.sizes[-3] or start < 0:
        reject(f"{call.name} of {q} at position {start} with {cosines}")
    run.kernel(kernel_name("rotary_embedding_hf", outs[0]), *outs, q, k, cosines, sines)
    half = size // 2
    for x, out in zip((q, k), outs, strict=True):
        must_pack(call.name, WIDTH, out)
        rows = slice(start, start + x.sizes[-3])
        cosine, sine = (wide(run.read(table))[rows, None, :half] for table in (cosines, sines))
        value = wide(run.read(x))
        first, second = value[..., :half], value[..., half:size]
        rotated = [first * cosine - second * sine, second * cosine + first * sine, value[..., size:]]
        run.write(out, torch.cat(rotated, -1))


def _rotary_interleaved(run: Run, call: Call) -> None:
    """Rotates pairs of adjacent elements by pairs of a cosine and a sine."""
    x, table, out = call.tensor(0), call.tensor(1), call.tensor(2)
    if x.dim != _RANK - 1 or x.sizes[2] % _TEXEL or table.numel != x.sizes[1] * x.sizes[2]:
        reject(f"{call.name} of {x} with {table}")
    must_pack(call.name, WIDTH, x, out)
    run.kernel(kernel_name("apply_rotary_emb_interleaved", out), out, x, table)
    cosine, sine = wide(run.read(table)).reshape(x.sizes[1], -1, 2).unbind(-1)
    even, odd = torch.unflatten(wide(run.read(x)), -1, (-1, 2)).unbind(-1)
    rotated = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
    run.write(out, rotated.flatten(-2))


SEMANTICS: Final[dict[str, Semantics]] = {
    "et_vk.sdpa.default": _fused,
    "update_cache.default": _update_cache,
    "llama.custom_sdpa.default": _custom,
    "sdpa_with_kv_cache.default": _with_cache,
    "et_vk.apply_rotary_emb.default": _rotary,
    "et_vk.apply_rotary_emb_hf.default": _rotary_halves,
    "et_vk.apply_rotary_emb_interleaved.default": _rotary_interleaved,
}
