# SPDX-License-Identifier: Apache-2.0
"""The executor itself: inputs, outputs, constants, layouts, arguments, undefined behavior."""

from __future__ import annotations

import pytest
import torch
from delegatec_schemas.vulkan_graph import MemoryLayout, StorageType

from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.reference.executor import VulkanReferenceExecutor
from delegatec.backends.vulkan.reference.testing import BUFFER, CHANNELS, WIDTH, Blob, Placement
from delegatec.backends.vulkan.reference.unspecified import Unspecified
from delegatec.diagnostics import DelegatecError

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def negation(placement: Placement = WIDTH, x: torch.Tensor = X) -> Blob:
    blob = Blob()
    given = blob.input(x, placement)
    blob.call("aten.neg.default", given, blob.output(x.shape, x.dtype, placement))
    return blob


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "0 inputs instead of 1"),
        ([X.int()], "input 0 is int32, and is staged as float32"),
        ([X[:, :, None]], "is resized to [2, 3, 1]; the number of dimensions is fixed"),
        ([X.repeat(2, 1)], "is resized to [4, 3], and has memory for [2, 3]"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[torch.Tensor], message: str) -> None:
    assert message in negation().rejection(*inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_inputs_of_other_floats_are_converted(dtype: torch.dtype) -> None:
    (result,) = negation().run(X.to(dtype))
    assert (result.dtype, result.tolist()) == (torch.float32, (-X).tolist())


def test_float32_is_staged_into_float16() -> None:
    blob = Blob()
    given = blob.input(X, WIDTH, dtype=torch.float16)
    blob.call("aten.neg.default", given, blob.output(X.shape, torch.float16, WIDTH))
    (result,) = blob.run(X + 1e-4)
    assert (result.dtype, result.tolist()) == (torch.float16, (-X).tolist())


def test_int64_is_passed_as_int32() -> None:
    blob = Blob()
    given = blob.input(X.int(), WIDTH)
    blob.call("aten.add.Tensor", given, given, 1, blob.output(X.shape, torch.int32, WIDTH))
    (result,) = blob.run(X.long())
    assert (result.dtype, result.tolist()) == (torch.int32, (2 * X).tolist())


def test_64_bit_tensors_do_not_exist() -> None:
    assert negation(x=X.long()).rejection(X.long()) == "it has no shader nchw_to_image_texture3d_int64_int64"


def test_an_operator_that_the_runtime_lacks() -> None:
    blob = Blob()
    blob.call("aten.ne.Scalar", blob.input(X), 1.0, blob.output(X.shape))
    assert blob.rejection(X) == "it has no operator aten.ne.Scalar"


def test_a_constant_is_packed_before_its_use() -> None:
    direct, packed = Blob(), Blob()
    direct.call("aten.neg.default", direct.constant(X), direct.output(X.shape))
    assert "which the operator does not pack" in direct.rejection()
    tensor = packed.tensor(X.shape)
    packed.call("et_vk.prepack.default", packed.constant(X), tensor)
    packed.call("aten.neg.default", tensor, packed.output(X.shape))
    assert packed.run()[0].equal(-X)


def test_a_constant_output_is_not_written() -> None:
    blob = Blob()
    blob.outputs.append(blob.constant(X))
    assert blob.rejection() == "output 0 is a constant, which the runtime does not write"


def test_named_data() -> None:
    blob = Blob()
    tensor = blob.tensor(X.shape)
    blob.call("et_vk.prepack.default", blob.constant(X), tensor)
    blob.outputs.append(tensor)
    (stored,) = blob.constants
    stored.offset, stored.key = NAMED, "weights"
    executor = VulkanReferenceExecutor(read_blob(memoryview(blob.data())))
    with pytest.raises(DelegatecError, match='it has no named data "weights"'):
        executor([])
    executor.load_named_data({"weights": memoryview(X.numpy().tobytes()[:8])})
    with pytest.raises(DelegatecError, match='named data "weights" has 8 bytes instead of 24'):
        executor([])
    executor.load_named_data({"weights": memoryview(X.numpy().tobytes())})
    assert executor([])[0].equal(X)


def test_a_long_name_is_shortened() -> None:
    blob = Blob()
    blob.call("a" * 5000, blob.input(X, WIDTH), blob.output(X.shape, placement=WIDTH))
    message = blob.rejection(X)
    assert message.startswith("it has no operator a") and "a...a" in message and len(message) < 1100


@pytest.mark.parametrize("placement", [BUFFER, WIDTH])
def test_storage_of_operands(placement: Placement) -> None:
    """A shader binds a buffer or an image, regardless of the tensor."""
    other = WIDTH if placement == BUFFER else BUFFER
    blob = Blob()
    blob.call("aten.neg.default", blob.input(X, other), blob.output(X.shape, placement=placement))
    assert "of shader neg_float_" in blob.rejection(X)


def test_dtype_of_operands() -> None:
    mixed = Blob()
    mixed.call("aten.neg.default", mixed.input(X, BUFFER), mixed.output(X.shape, torch.float16, BUFFER))
    assert mixed.rejection(X).endswith("is tensor 1 of shader neg_half_buffer, which binds half")
    # An image is read by a sampler, which converts.
    image = Blob()
    image.call("aten.neg.default", image.input(X, WIDTH), image.output(X.shape, torch.float16, WIDTH))
    assert image.run(X)[0].equal(-X.half())


def test_hard_sigmoid_of_nan() -> None:
    blob = Blob()
    blob.call("aten.hardsigmoid.default", blob.input(X, WIDTH), blob.output(X.shape, placement=WIDTH))
    (result,) = blob.run(torch.full_like(X, torch.nan))
    assert result.isnan().all()


def test_layout_of_operands() -> None:
    blob = Blob()
    blob.call("aten.neg.default", blob.input(X, WIDTH), blob.output(X.shape, placement=CHANNELS))
    assert "which pack different dimensions" in blob.rejection(X)


def test_buffers_are_row_major() -> None:
    columns = (StorageType.BUFFER, MemoryLayout.HEIGHT_PACKED)
    blob = Blob()
    blob.call(
        "aten._softmax.default", blob.input(X, columns), 1, False, blob.output(X.shape, placement=columns)
    )
    assert "which needs a row-major buffer" in blob.rejection(X)


@pytest.mark.parametrize(
    ("shape", "placement", "message"),
    [
        ((1, 1, 1, 1, 2), WIDTH, "is a texture of more than 4 dimensions"),
        ((1,) * 9, BUFFER, "has more than 8 dimensions"),
        ((16385, 1), WIDTH, "needs [1, 16385, 1] texels"),
        ((2049, 1, 1), WIDTH, "needs [1, 1, 2049] texels"),
    ],
)
def test_shapes_that_do_not_fit(shape: tuple[int, ...], placement: Placement, message: str) -> None:
    x = torch.zeros(shape)
    assert message in negation(placement, x).rejection(x)


def test_the_default_layout_depends_on_the_shape() -> None:
    """Three dimensions pack channels, unless there is one."""
    for shape, packs_channels in (((2, 1, 3), True), ((1, 2, 3), False), ((2, 3), False)):
        x = torch.rand(shape)
        blob = Blob()
        blob.call("aten.flip.default", blob.input(x), [0], blob.output(shape))
        assert (blob.rejection(x) == "") == packs_channels


def test_a_result_of_another_shape() -> None:
    blob = Blob()
    blob.call("aten.neg.default", blob.input(X, WIDTH), blob.output((3, 2), placement=WIDTH))
    assert blob.rejection(X).endswith("is the result of an operator that computes the shape [2, 3]")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (5, "argument 1 of aten.permute.default is Int instead of IntList"),
        ([1.5], "argument 1 of aten.permute.default is DoubleList instead of IntList"),
        (None, "argument 1 of aten.permute.default is Null instead of IntList"),
    ],
)
def test_arguments_are_typed(order: object, message: str) -> None:
    blob = Blob()
    blob.call("aten.permute.default", blob.input(X), order, blob.output((3, 2)))
    assert blob.rejection(X) == message


def test_arguments_are_counted() -> None:
    blob = Blob()
    blob.call("aten.permute.default", blob.input(X), [1, 0])
    message = "aten.permute.default has 2 arguments, and the runtime reads number 2"
    assert blob.rejection(X) == message


def test_undefined_behavior_is_rejected_by_default() -> None:
    """Rows of five in workgroups of four: some return before a barrier."""
    x = torch.rand(5, 8)
    blob = Blob()
    blob.call("aten._softmax.default", blob.input(x, WIDTH), 1, False, blob.output(x.shape, placement=WIDTH))
    with pytest.raises(DelegatecError) as error:
        blob.run(x)
    assert [item.code for item in error.value.diagnostics] == ["DC440"]
    (result,) = blob.run(x, unspecified=Unspecified(barriers="ignored"))
    assert torch.allclose(result, torch.softmax(x, 1))


def test_texels_outside_of_an_image() -> None:
    """Softmax of three channels by four invocations, each of which starts with its own texel."""
    x = torch.rand(3, 4, 4) - 150
    blob = Blob()
    blob.call("aten._softmax.default", blob.input(x, WIDTH), 0, False, blob.output(x.shape, placement=WIDTH))
    with pytest.raises(DelegatecError, match="DC440"):
        blob.run(x)
    (result,) = blob.run(x, unspecified=Unspecified(texels="zero"))
    assert not torch.allclose(result, torch.softmax(x, 0))


def test_reductions_of_buffers_are_clamped() -> None:
    blob = Blob()
    blob.call(
        "aten.sum.dim_IntList", blob.input(X, BUFFER), [1], True, None, blob.output((2, 1), placement=BUFFER)
    )
    assert blob.run(X * 0 + 1e6)[0].equal(torch.full((X.shape[0], 1), 65504.0))


@pytest.mark.parametrize(("width", "spoiled"), [(5, True), (8, False)])
def test_infinite_elements_that_fill_texels(width: int, spoiled: bool) -> None:
    """The inverse root of the zeros after a row is infinite, and NaN if multiplied by a weight's zeros."""
    x, weight = torch.rand(3, width) + 0.5, torch.rand(4, width)
    for placement in (WIDTH, BUFFER):
        blob = Blob()
        middle, sum_of = blob.tensor(x.shape, placement=placement), blob.tensor(x.shape, placement=placement)
        blob.call("aten.rsqrt.default", blob.input(x, placement), middle)
        blob.call("aten.add.Tensor", middle, middle, 1, sum_of)
        out = blob.output((3, 4), placement=placement)
        blob.call("aten.linear.default", sum_of, blob.constant(weight), None, out)
        assert ("adds NaN" in blob.rejection(x)) == (spoiled and placement == WIDTH)


# ---- dynamic shapes ----


def _layer_beside(dynamic: tuple[int, ...]) -> tuple[Blob, torch.Tensor]:
    """Returns a negation of an input of at most these sizes next to a layer of rank 4, and its weight."""
    blob, weight = Blob(), torch.arange(6.0).reshape(2, 3)
    first, image = blob.input(torch.ones(dynamic), WIDTH), blob.input(torch.ones(1, 4, 5, 3), WIDTH)
    blob.call("aten.neg.default", first, blob.output(dynamic, placement=WIDTH))
    out = blob.output((1, 4, 5, 2), placement=WIDTH)
    blob.call("aten.linear.default", image, blob.constant(weight), None, out)
    return blob, weight


def test_calls_whose_arguments_are_the_same_are_not_resized() -> None:
    blob, weight = _layer_beside((6, 3))
    image = torch.randn(1, 4, 5, 3)
    run = blob.executor()
    for rows in (6, 2, 5, 5, 1):
        x = torch.randn(rows, 3)
        negative, product = run((x, image))
        assert negative.equal(-x)
        torch.testing.assert_close(product, image @ weight.T)


def test_calls_with_another_argument_are_resized() -> None:
    blob, _ = _layer_beside((6, 3))
    message = blob.rejection(torch.ones(6, 3), torch.ones(1, 2, 5, 3))
    assert "aten.linear.default" in message and "whose shape is dynamic" in message


@pytest.mark.parametrize(("rows", "expected"), [(6, 6), (4, 4)])
def test_symbols_are_those_of_the_largest_sizes_until_an_input_changes(rows: int, expected: int) -> None:
    blob = Blob()
    x, size = blob.input(torch.ones(6, 3), WIDTH), blob.symbol(0)
    blob.call("sym_size.int", x, 0, size)
    blob.call("aten.full.default", [size], 1.0, *[None] * 4, blob.output((6,), placement=WIDTH))
    (result,) = blob.run(torch.ones(rows, 3))
    assert result.tolist() == [1.0] * expected
