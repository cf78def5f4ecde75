# SPDX-License-Identifier: Apache-2.0
"""Direct calls on fake tensors have the results of the mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from delegatec.edge import fakes
from delegatec.edge.fakes import computed, estimated

aten = torch.ops.aten

CALLS: dict[Any, Callable[..., tuple[Any, ...]]] = {
    aten.add.Tensor: lambda x, scalar, index: (x, scalar),
    aten.sub.Tensor: lambda x, scalar, index: (x, 1.5),
    aten.mul.Tensor: lambda x, scalar, index: (scalar, 3),
    aten.gt.Scalar: lambda x, scalar, index: (x, 0),
    aten.where.self: lambda x, scalar, index: (x > 0, x, scalar),
    aten.cat.default: lambda x, scalar, index: ([x, x], 1),
    aten.sum.dim_IntList: lambda x, scalar, index: (x, [1], True),
    aten.max.dim: lambda x, scalar, index: (x, 1),
    aten.softmax.int: lambda x, scalar, index: (x, -1),
    aten.linear.default: lambda x, scalar, index: (x, x),
    aten.mm.default: lambda x, scalar, index: (x, x.mT),
    aten.native_layer_norm.default: lambda x, scalar, index: (x, [4], None, None, 1e-5),
    aten.split.Tensor: lambda x, scalar, index: (x, 1),
    aten.view.default: lambda x, scalar, index: (x, [2, 6]),
    aten.permute.default: lambda x, scalar, index: (x, [1, 0]),
    aten.index.Tensor: lambda x, scalar, index: (x, [index]),
    aten.full_like.default: lambda x, scalar, index: (x, 2),
    aten.slice.Tensor: lambda x, scalar, index: (x, 1, 1, 3),
    aten._to_copy.default: lambda x, scalar, index: (index,),
    aten.full.default: lambda x, scalar, index: ([2, 3], 1.5),
    aten.scalar_tensor.default: lambda x, scalar, index: (2,),
    aten.arange.start_step: lambda x, scalar, index: (0, 7, 2),
}


def _form(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_form(each) for each in value]
    return type(value), value.dtype, value.shape, value.stride(), value.device


def _operands() -> tuple[torch.Tensor, ...]:
    return torch.empty(3, 4), torch.empty((), dtype=torch.int64), torch.empty(2, dtype=torch.int64)


@pytest.mark.parametrize("target", CALLS, ids=str)
def test_results_are_those_of_the_mode(target: Any) -> None:
    with FakeTensorMode() as mode:
        args = CALLS[target](*_operands())
        assert _form(computed(mode, target, args, {})) == _form(target(*args))


@pytest.mark.parametrize("target", [aten.full.default, aten.scalar_tensor.default, aten._to_copy.default])
def test_devices_and_dtypes_are_kept(target: Any) -> None:
    with FakeTensorMode() as mode:
        args, kwargs = CALLS[target](*_operands()), {"dtype": torch.float16, "device": torch.device("cpu")}
        assert _form(computed(mode, target, args, kwargs)) == _form(target(*args, **kwargs))


def test_errors_are_those_of_the_mode() -> None:
    with FakeTensorMode() as mode:
        x, _, index = _operands()
        with pytest.raises(RuntimeError, match="broadcast"):
            computed(mode, aten.add.Tensor, (x, index), {})


@pytest.mark.parametrize("target", [aten.add.Tensor, aten.mm.default, aten.cat.default, aten.sum.dim_IntList])
def test_common_operators_run_without_the_mode(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    with FakeTensorMode() as mode:
        args = CALLS[target](*_operands())
        monkeypatch.setattr(FakeTensorMode, "dispatch", lambda *args: calls.append(args))
        assert type(computed(mode, target, args, {})) is FakeTensor
    assert not calls


@pytest.mark.parametrize("target", CALLS, ids=str)
def test_estimates_have_the_forms_of_results(target: Any) -> None:
    def form(value: Any) -> Any:
        return (
            [form(each) for each in value] if isinstance(value, (tuple, list)) else (value.dtype, value.shape)
        )

    with FakeTensorMode() as mode:
        args = CALLS[target](*_operands())
        found = estimated(mode, target, args, {})
        assert (
            form(found) == form(target(*args))
            if found is not None
            else "Tensor self" not in str(target._schema)
        )
        assert estimated(mode, aten.add.Tensor, _operands()[::2], {}) is None
        assert estimated(mode, aten.add_.Tensor, args, {}) is None


RESIZED: dict[Any, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    aten.upsample_linear1d.vec: ((1, 2, 5), (None, False, [2.5])),
    aten.upsample_nearest1d.vec: ((1, 2, 5), ([3], None)),
    aten.upsample_bicubic2d.vec: ((1, 2, 5, 7), ([3, 9], True, None)),
    aten.upsample_bilinear2d.vec: ((3, 2, 5, 7), (None, False, [1.3, 0.5])),
    aten.upsample_nearest2d.vec: ((1, 2, 5, 7), (None, [2.0, 0.7])),
    aten.upsample_nearest3d.vec: ((1, 2, 5, 7, 3), (None, [2.0, 0.4, 1.99])),
    aten.upsample_trilinear3d.vec: ((1, 2, 5, 7, 3), ([1, 2, 3], False, None)),
}


@pytest.mark.parametrize("target", RESIZED, ids=str)
def test_estimates_of_resized_tensors(target: Any) -> None:
    shape, rest = RESIZED[target]
    with FakeTensorMode() as mode:
        found, expected = (
            estimated(mode, target, (torch.empty(shape), *rest), {}),
            target(torch.empty(shape), *rest),
        )
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        for wrong in (
            torch.empty(shape[1:]),
            torch.empty((0, *shape[1:])),
            torch.empty(shape, dtype=torch.bool),
        ):
            assert estimated(mode, target, (wrong, *rest), {}) is None


ELEMENTWISE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "one row": (aten.add.Tensor, (torch.empty(5, 4), torch.empty(4))),
    "either broadcasts": (aten.add.Tensor, (torch.empty(5, 1), torch.empty(1, 4))),
    "transposed": (aten.mul.Tensor, (torch.empty(4, 5).mT, 2.0)),
    "expanded": (aten.exp.default, (torch.empty(4, 1).expand(4, 5),)),
    "channels last": (aten.abs.default, (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last),)),
    "empty": (aten.mul.Tensor, (torch.empty(0, 4), torch.empty(1, 4))),
    "scalar of another dtype": (aten.add.Tensor, (torch.empty(2).half(), torch.empty(()))),
    "vector of another dtype": (aten.add.Tensor, (torch.empty(2).half(), torch.empty(1))),
    "integer and fraction": (aten.mul.Tensor, (torch.empty(2).int(), 0.5)),
    "integers": (aten.mul.Tensor, (torch.empty(2).int(), 5)),
    "comparison": (aten.lt.Tensor, (torch.empty(2), torch.empty(2, 2))),
    "rounded": (aten.div.Tensor_mode, (torch.empty(2).int(), 2)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_results_do_not_depend_on_earlier_calls(name: str) -> None:
    target, operands = ELEMENTWISE[name]
    kwargs = {"rounding_mode": "floor"} if target is aten.div.Tensor_mode else {}
    with FakeTensorMode() as mode:
        args = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in operands]
        for _, (other, others) in ELEMENTWISE.items():
            if other is target and not kwargs:
                every = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in others]
                computed(mode, target, every, {})
        for _ in range(2):
            assert _form(computed(mode, target, args, kwargs)) == _form(target(*args, **kwargs))


def test_kernels_of_elementwise_operators_run_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    kernel = fakes._of_kernel

    def counted(*args: Any) -> Any:
        runs.append(args)
        return kernel(*args)

    monkeypatch.setattr(fakes, "_of_kernel", counted)
    monkeypatch.setattr(fakes, "_DTYPES", {})
    with FakeTensorMode() as mode:
        for size in range(1, 9):
            assert computed(mode, aten.add.Tensor, (torch.empty(3, size), 1.5), {}).shape == (3, size)
    assert len(runs) == 1
