# SPDX-License-Identifier: Apache-2.0
"""Products with matrices that indices choose, such as those of experts: one node, without copies."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor

from delegatec.backends.common.testing import floats, ints
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.grid import PRECISIONS, run_case
from delegatec.backends.mlx.testing.nodes import run_node
from delegatec.diagnostics import DelegatecError
from delegatec.edge.quantization.affine import AFFINE

_X: Final = floats(5, 16)
_SCORES: Final = floats(5, 4, seed=1)
_MATRICES: Final = floats(4, 16, 24, seed=2)
_INDICES: Final = ints(5, high=4)


def _chosen(scores: Tensor) -> Tensor:
    return scores.topk(2).indices.reshape(-1)


def _rows(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, 0)


def _from_the_left(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    return torch.bmm(_rows(x).unsqueeze(1), matrices[_chosen(scores)])


def _from_the_right(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    return torch.bmm(matrices[_chosen(scores)].mT, _rows(x).unsqueeze(2))


def _selected(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    return torch.bmm(_rows(x).unsqueeze(1), torch.index_select(matrices, 0, _chosen(scores)))


def _of_a_constant(x: Tensor, scores: Tensor, _: Tensor) -> Tensor:
    return torch.bmm(_MATRICES.to(x.dtype)[_chosen(scores)].mT, _rows(x).unsqueeze(2))


def _both(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
    chosen = _chosen(scores)
    return torch.bmm(x.unsqueeze(1)[chosen], matrices[chosen])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("function", [_from_the_left, _from_the_right, _selected, _of_a_constant, _both])
def test_chosen_matrices_are_not_copied(function: Any, precision: str) -> None:
    compiled = run_case(function, (_X, _SCORES, _MATRICES), "", precision, rtol=1e-2, atol=1e-2)
    names = operations(compiled.blobs()[0])
    assert names.count("GatherMm") == 1 and not {"Addmm", "Take", "Gather"} & {*names}


def _quantized(
    bits: int, group: int = 32, zeros: bool = False, shape: tuple[int, int, int] = (4, 24, 64)
) -> Any:
    """Returns dequantized matrices of experts, as a function of nothing, and their constants."""
    chance = torch.Generator().manual_seed(bits)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    values = torch.randint(low, high + 1, shape, generator=chance).to(torch.int8)
    values[0, 0, :2] = torch.tensor([low, high])
    scales = torch.rand((*shape[:2], shape[2] // group), generator=chance) / (1 << bits) + 2.0**-9
    points = torch.randint(low, high + 1, scales.shape, generator=chance) if zeros else None
    return lambda: AFFINE.dequantize_affine(values, [1, 1, group], scales, points, torch.int8)


_QX: Final = floats(5, 64, seed=4)


def _quantized_right(x: Tensor, scores: Tensor, experts: Any) -> Tensor:
    return torch.bmm(_rows(x).unsqueeze(1), experts[_chosen(scores)].mT)


def _quantized_left(x: Tensor, scores: Tensor, experts: Any) -> Tensor:
    return torch.bmm(experts[_chosen(scores)], _rows(x).unsqueeze(2))


def _several_rows(x: Tensor, scores: Tensor, experts: Any) -> Tensor:
    return torch.bmm(_rows(x).view(2, 5, 64), experts[_chosen(scores)[:2]].mT)


def _chosen_rows(x: Tensor, scores: Tensor, experts: Any) -> Tensor:
    chosen = _chosen(scores)
    return torch.bmm(x.unsqueeze(1)[chosen], experts[chosen].mT)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("function", [_quantized_right, _quantized_left, _several_rows, _chosen_rows])
def test_quantized_matrices_are_read_as_they_are_stored(function: Any, precision: str) -> None:
    experts = _quantized(4)

    def model(x: Tensor, scores: Tensor) -> Tensor:
        return function(x, scores, experts().to(x.dtype))

    compiled = run_case(model, (_QX, _SCORES), "", precision, rtol=1e-2, atol=1e-2)
    names = operations(compiled.blobs()[0])
    assert names.count("GatherQmm") == 1
    assert not {"Addmm", "Take", "Gather", "GatherMm", "Dequantize"} & {*names}


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_bits_of_quantized_matrices(bits: int, zeros: bool) -> None:
    experts = _quantized(bits, 64, zeros)
    compiled = run_case(lambda x, scores: _quantized_right(x, scores, experts()), (_QX, _SCORES))
    assert "GatherQmm" in operations(compiled.blobs()[0])
    stored = [len(each.data) for each in compiled.delegates[0].named_data.values()]
    assert max(stored) == 4 * 24 * 64 * bits // 8


def test_groups_along_the_results() -> None:
    experts = _quantized(4, shape=(4, 64, 96))
    run_case(
        lambda x, scores: torch.bmm(_rows(x).unsqueeze(1), experts()[_chosen(scores)]),
        (_QX, _SCORES),
        atol=1e-5,
    )


def test_other_uses_of_quantized_matrices() -> None:
    experts = _quantized(4)

    def model(x: Tensor, scores: Tensor) -> Tensor:
        matrices = experts()
        return _quantized_right(x, scores, matrices) + matrices.sum()

    names = operations(run_case(model, (_QX, _SCORES), atol=1e-5).blobs()[0])
    assert names.count("GatherQmm") == names.count("Dequantize") == 1


@pytest.mark.parametrize("index", [-1, 3])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_the_node_for_quantized_matrices(index: int, is_transposed: bool) -> None:
    x, chosen = floats(2, 1, 32), torch.tensor([2, 0])
    packed = torch.arange(3 * 32 * 4, dtype=torch.int32).mul(0x01234567).view(torch.uint32).view(3, 32, 4)
    scales, biases = floats(3, 32, 1, seed=1), floats(3, 32, 1, seed=2)
    operands = ["x", "w", "scales", "biases"]
    fields = {"groupSize": 32, "bits": 4, "mode": "affine"}
    given = [x, packed, scales, biases]
    (matrices,) = run_node("Dequantize", operands[1:], given[1:], **fields)
    wanted = x @ (matrices[chosen].mT if is_transposed else matrices[chosen])
    own = {**fields, "transpose": is_transposed}
    (found,) = run_node("GatherQmm", [*operands, "rhsIndices"], [*given, chosen], **own)
    torch.testing.assert_close(found, wanted)
    with pytest.raises(DelegatecError, match=r"DC408.*beyond 3 matrices"):
        run_node("GatherQmm", [*operands, "rhsIndices"], [*given, torch.tensor([index, 0])], **own)


def test_indices_that_may_be_negative() -> None:
    """ATen counts them from the end, the node does not."""

    def function(x: Tensor, indices: Tensor, matrices: Tensor) -> Tensor:
        return torch.bmm(x.unsqueeze(1), matrices[indices])

    run_case(
        function,
        (_X, _INDICES, _MATRICES),
        "ExpandDims Take Addmm",
        others=[(_X, torch.tensor([-1, 0, -4, 3, 1]), _MATRICES)],
    )


def test_slices_of_chosen_matrices() -> None:
    """Not all of the elements are operands."""

    def function(x: Tensor, scores: Tensor, matrices: Tensor) -> Tensor:
        return torch.bmm(_rows(x).unsqueeze(1), matrices[_chosen(scores)][:, :, ::2])

    run = run_case(function, (_X, _SCORES, _MATRICES), rtol=1e-4, atol=1e-5)
    assert "GatherMm" not in operations(run.blobs()[0])


@pytest.mark.parametrize("sides", ["rhs", "lhs", "both"])
def test_the_node(sides: str) -> None:
    left, right = floats(3, 2, 4), floats(3, 4, 5, seed=1)
    given = torch.tensor([2, 0, 0])
    operands = {"lhs": ["lhsIndices"], "rhs": ["rhsIndices"], "both": ["lhsIndices", "rhsIndices"]}[sides]
    (found,) = run_node("GatherMm", ["a", "b", *operands], [left, right, *[given] * len(operands)])
    first = left[given] if sides != "rhs" else left
    second = right[given] if sides != "lhs" else right
    torch.testing.assert_close(found, first @ second)


@pytest.mark.parametrize("index", [-1, 3])
def test_indices_beyond_the_matrices(index: int) -> None:
    operands = [floats(1, 2, 4), floats(3, 4, 5), torch.tensor([index])]
    with pytest.raises(DelegatecError, match=r"DC408.*beyond 3 matrices"):
        run_node("GatherMm", ["a", "b", "rhsIndices"], operands)
