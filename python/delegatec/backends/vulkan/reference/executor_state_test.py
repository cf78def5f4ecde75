# SPDX-License-Identifier: Apache-2.0
"""The state of a run: shared memory, shapes that follow the inputs, and elements kept between runs."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.vulkan.reference.testing import BUFFER, WIDTH, Blob, Placement

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def _shared(first: int, second: int, third: int) -> Blob:
    """Negates x, then takes both exponentials, and adds the first two."""
    blob = Blob()
    x = blob.input(X, WIDTH)
    one, two, three = (blob.tensor(X.shape, placement=WIDTH, memory=id) for id in (first, second, third))
    blob.call("aten.neg.default", x, one)
    blob.call("aten.exp.default", one, two)
    blob.call("aten.exp.default", x, three)
    blob.call("aten.add.Tensor", one, two, 1, blob.output(X.shape, placement=WIDTH))
    return blob


def test_memory_of_its_own() -> None:
    assert torch.allclose(_shared(-1, -1, -1).run(X)[0], -X + torch.exp(-X))
    assert torch.allclose(_shared(0, 1, 2).run(X)[0], -X + torch.exp(-X))


def test_overwritten_memory_is_not_read() -> None:
    message = "is used before it is written, or after another tensor overwrote its memory"
    assert _shared(0, 1, 0).rejection(X).endswith(message)
    assert _shared(1, 0, 0).rejection(X).endswith(message)


def test_an_operator_does_not_write_where_it_reads() -> None:
    assert "which share memory" in _shared(0, 0, 1).rejection(X)


def test_inputs_that_share_memory() -> None:
    blob = Blob()
    x, y = blob.input(X, WIDTH, memory=3), blob.input(X, WIDTH, memory=3)
    blob.call("aten.add.Tensor", x, y, 1, blob.output(X.shape, placement=WIDTH))
    assert "overwrote its memory" in blob.rejection(X, X)


def test_packed_constants_do_not_share_memory() -> None:
    blob = Blob()
    tensor = blob.tensor(X.shape, memory=0)
    blob.call("et_vk.prepack.default", blob.constant(X), tensor)
    blob.outputs.append(tensor)
    assert "shares memory 0" in blob.rejection()


def test_shapes_follow_the_inputs() -> None:
    weight = torch.rand(4, 3)
    blob = Blob()
    x = blob.input(torch.zeros(8, 3), BUFFER)
    middle = blob.tensor((8, 4), placement=BUFFER)
    blob.call("aten.linear.default", x, blob.constant(weight), None, middle)
    blob.call("aten.permute.default", middle, [1, 0], blob.output((4, 8), placement=BUFFER))
    sizes = [blob.value(2), blob.value(-1)]
    blob.call("aten.view_copy.default", middle, sizes, blob.output((2, 16), placement=BUFFER))
    run = blob.executor()
    for rows in (8, 3, 5, 8):
        given = torch.rand(rows, 3)
        product = given @ weight.T
        turned, viewed = run([given])
        assert torch.allclose(turned, product.T)
        assert torch.allclose(viewed, product.reshape(2, -1))


def test_sizes_of_shapes() -> None:
    blob = Blob()
    x = blob.input(torch.zeros(8, 3), BUFFER)
    size, more, less = blob.symbol(8), blob.symbol(9), blob.symbol(4)
    blob.call("sym_size.int", x, 0, size)
    blob.call("add", size, 1, more)
    blob.call("floordiv", more, 2, less)
    start = blob.symbol(0)
    blob.call("sub", less, less, start)
    scaled = blob.symbol(8)
    blob.call("mul", size, 1, scaled)
    out = blob.output((4, 3), placement=BUFFER)
    blob.call("aten.slice_copy.Tensor", x, 0, start, less, 1, out)
    run = blob.executor()
    for rows in (8, 5, 6):
        given = torch.rand(rows, 3)
        assert run([given])[0].equal(given[: (rows + 1) // 2])


def test_an_operator_that_does_not_resize() -> None:
    x = torch.rand(4, 6)
    blob = Blob()
    outs = [blob.output((4, 3), placement=BUFFER), blob.output((4, 3), placement=BUFFER)]
    blob.call("aten.split_with_sizes_copy.default", blob.input(x, BUFFER), [3, 3], 1, outs)
    assert "is the result of an operator that computes the shape [2, 3]" in blob.rejection(x[:2])


def test_a_scalar_from_an_input() -> None:
    blob = Blob()
    where, x = blob.input(torch.tensor([2], dtype=torch.int32), BUFFER), blob.input(torch.zeros(5, 3), BUFFER)
    index = blob.symbol(0)
    blob.call("et_vk.select_as_symint.default", where, 0, 0, index)
    blob.call("aten.select_copy.int", x, 0, index, blob.output((3,), placement=BUFFER))
    run = blob.executor()
    given = torch.rand(5, 3)
    for placement in (0, 4, 2):
        assert run([torch.tensor([placement]), given])[0].equal(given[placement])


# ---- a cache ----


@pytest.mark.parametrize("placement", [BUFFER, WIDTH])
@pytest.mark.parametrize("own", [False, True])
def test_a_cache_keeps_its_values(placement: Placement, own: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    blob = Blob()
    position = blob.symbol(0)
    blob.inputs.append(position)
    shape = (1, 4, 2, 8)
    q, *added = [blob.input(torch.zeros(1, 1, heads, 8), placement) for heads in (4, 2, 2)]
    out = blob.output((1, 1, 4, 8), placement=placement)
    if own:
        empty = blob.constant(torch.zeros(1, 16, 2, 8))
        rest = [position, 1, None, 0.0, True, None, out]
        blob.call("sdpa_with_kv_cache.default", q, *added, empty, empty, *rest)
    else:
        caches = []
        for row_of in added:
            cache = blob.tensor((1, 16, 2, 8), placement=placement)
            blob.call("et_vk.prepack.default", blob.constant(torch.zeros(1, 16, 2, 8)), cache)
            blob.call("update_cache.default", row_of, cache, position, None)
            caches.append(cache)
        blob.call("llama.custom_sdpa.default", q, *caches, position, None, None, True, None, out)
    run = blob.executor()
    queries = torch.rand((1, 4, 4, 8), generator=generator)
    keys, values = torch.rand(shape, generator=generator), torch.rand(shape, generator=generator)
    for row in range(4):
        new = [tensor[:, row : row + 1].contiguous() for tensor in (queries, keys, values)]
        (found,) = run([torch.tensor([row], dtype=torch.int32), *new])
        key, value = (
            tensor[0, : row + 1].repeat_interleave(2, 1).transpose(0, 1) for tensor in (keys, values)
        )
        query = queries[0, row : row + 1].transpose(0, 1)
        wanted = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        assert torch.allclose(found[0].transpose(0, 1), wanted, atol=1e-6)
