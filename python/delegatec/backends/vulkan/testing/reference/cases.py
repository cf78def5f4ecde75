# SPDX-License-Identifier: Apache-2.0
"""Operators with their results, for tests: each is tried with every storage and layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.vulkan.reference.testing import (
    BUFFER,
    CHANNELS,
    HEIGHT,
    PLACEMENTS,
    WIDTH,
    Blob,
    Placement,
)

Results = torch.Tensor | Sequence[torch.Tensor]
_RESULT: Final = "result"


@dataclass(frozen=True)
class Constant:
    """A constant argument."""

    value: torch.Tensor


@dataclass(frozen=True)
class Case:
    """An operator call.

    Attributes:
        name: the operator.
        arguments: tensors are inputs; lists of tensors are lists of inputs.
        expected: the results.
        placements: supported storage and layouts of its tensors; the others are rejected.
        at: storage and layout of single inputs, by position.
        results: storage and layout of single results.
        listed: whether its results are a list, even one of them.
        exact: whether it has no float16 variant, or rounds.
    """

    name: str
    arguments: Sequence[Any]
    expected: Results
    placements: Sequence[Placement] = PLACEMENTS
    at: dict[int, Placement] = field(default_factory=dict)
    results: dict[int, Placement] = field(default_factory=dict)
    listed: bool = False
    exact: bool = False

    @property
    def lists(self) -> bool:
        """Whether its results are a list."""
        return self.listed or not isinstance(self.expected, torch.Tensor)

    @property
    def wanted(self) -> list[torch.Tensor]:
        """The results."""
        return [self.expected] if isinstance(self.expected, torch.Tensor) else list(self.expected)

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The inputs."""
        found: list[torch.Tensor] = []
        for argument in self.arguments:
            items = argument if isinstance(argument, list) else [argument]
            found += [item for item in items if isinstance(item, torch.Tensor)]
        return found

    def blob(self, placement: Placement) -> Blob:
        """Returns a blob with all tensors in one storage and layout."""
        blob = Blob()
        count = 0

        def add(argument: Any) -> Any:
            nonlocal count
            if isinstance(argument, torch.Tensor):
                count += 1
                return blob.input(argument, self.at.get(count - 1, placement))
            if isinstance(argument, Constant):
                return blob.constant(argument.value)
            if isinstance(argument, list) and any(isinstance(item, torch.Tensor) for item in argument):
                return [add(item) for item in argument]
            return argument

        arguments = [add(argument) for argument in self.arguments]
        outs = [
            blob.output(tensor.shape, tensor.dtype, self.results.get(index, placement))
            for index, tensor in enumerate(self.wanted)
        ]
        blob.call(self.name, *arguments, outs if self.lists else outs[0])
        return blob


def random(*shape: int) -> torch.Tensor:
    """Returns floats between -2 and 2."""
    return torch.rand(shape, generator=_GENERATOR) * 4 - 2


_GENERATOR: Final = torch.Generator().manual_seed(0)
_TEXTURES: Final = (WIDTH, HEIGHT, CHANNELS)
_X, _Y = random(2, 3, 5), random(3, 1)
_IMAGE = random(1, 5, 7, 6)
_IMAGES = random(2, 5, 4, 3)
_INTEGERS = torch.arange(-6, 9, dtype=torch.int32).reshape(3, 5)
_TRUTHS = _X > 0
K = Constant


def _unary(name: str, function: Callable[[torch.Tensor], torch.Tensor], *extra: Any) -> Case:
    return Case(f"aten.{name}.default", [_X, *extra], function(_X))


def _positive(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    return Case(f"aten.{name}.default", [_X.abs() + 0.25], function(_X.abs() + 0.25))


def _binary(name: str, function: Callable[..., torch.Tensor], *extra: Any) -> Case:
    return Case(f"aten.{name}", [_X, _Y, *extra], function(_X, _Y))


ELEMENTWISE: Final = [
    *(
        _unary(name, getattr(torch, name))
        for name in ("abs", "cos", "exp", "neg", "sigmoid", "sin", "tan", "tanh")
    ),
    *(_positive(name, getattr(torch, name)) for name in ("sqrt", "rsqrt")),
    _unary("hardswish", F.hardswish),
    _unary("hardsigmoid", F.hardsigmoid),
    _unary("relu", torch.relu),
    _unary("relu6", F.relu6),
    _unary("round", torch.round),
    _unary("gelu", lambda x: F.gelu(x, approximate="tanh"), "none"),
    _unary("clamp", lambda x: x.clamp(-0.5), -0.5, None),
    _unary("hardtanh", lambda x: x.clamp(-1, 1), -1.0, 1.0),
    _unary("hardshrink", lambda x: F.hardshrink(x, 0.75), 0.75),
    _unary("leaky_relu", lambda x: F.leaky_relu(x, 0.1), 0.1),
    Case("aten.clamp.default", [_INTEGERS, -2, 3], _INTEGERS.clamp(-2, 3)),
    Case("aten.bitwise_not.default", [_TRUTHS], ~_TRUTHS),
    _binary("add.Tensor", lambda x, y: x + 2 * y, 2),
    _binary("sub.Tensor", lambda x, y: x - 0.5 * y, 0.5),
    _binary("mul.Tensor", torch.mul),
    _binary("div.Tensor", torch.div),
    _binary("div.Tensor_mode", lambda x, y: torch.div(x, y, rounding_mode="floor"), "floor"),
    _binary("minimum.default", torch.minimum),
    Case("aten.pow.Tensor_Tensor", [_X.abs() + 0.1, _Y], torch.pow(_X.abs() + 0.1, _Y)),
    Case("aten.add.Tensor", [_INTEGERS, _INTEGERS[:1], 3], _INTEGERS + 3 * _INTEGERS[:1]),
    Case("aten.mul.Tensor", [_INTEGERS, _INTEGERS[:, :1]], _INTEGERS * _INTEGERS[:, :1]),
    *(_binary(f"{name}.Tensor", getattr(torch, name)) for name in ("lt", "le", "gt", "ge")),
    Case("aten.eq.Tensor", [_X, _X.clamp(0)], _X.clamp(0) == _X),
    Case("aten.eq.Tensor", [_INTEGERS, _INTEGERS], _INTEGERS == _INTEGERS, ()),
    Case("aten.bitwise_and.Tensor", [_TRUTHS, ~_TRUTHS | (_X > 1)], _TRUTHS & (_X > 1)),
    *(
        Case(f"aten.{name}", [_TRUTHS, _X < -1], _TRUTHS | (_X < -1))
        for name in ("logical_or.default", "bitwise_or.Tensor")
    ),
    Case("aten.logical_and.default", [_TRUTHS, _X < 1], _TRUTHS & (_X < 1)),
    Case("aten.add.Tensor", [_X, K(_Y), 1], _X + _Y),
    Case("aten.pow.Tensor_Scalar", [_X, 3], _X**3),
    Case("aten.pow.Tensor_Scalar", [_X, 2.0], _X**2),
    Case("aten.eq.Scalar", [_INTEGERS, 2], _INTEGERS == 2),
    Case("aten.where.self", [_TRUTHS, _X, _Y], torch.where(_TRUTHS, _X, _Y)),
]

MOVES: Final = [
    Case("aten.clone.default", [_X, None], _X),
    Case("aten.clone.default", [_INTEGERS, None], _INTEGERS),
    *(Case("aten.clone.default", [_X, None], _X, PLACEMENTS, {0: placement}) for placement in PLACEMENTS),
    Case("aten.view_copy.default", [_X, [6, 5]], _X.reshape(6, 5)),
    Case("aten.view_copy.default", [_X, [2, 1, 3, 5]], _X.reshape(2, 1, 3, 5), _TEXTURES, {0: WIDTH}),
    Case("aten.permute.default", [_X, [2, 0, 1]], _X.permute(2, 0, 1)),
    Case("aten.permute_copy.default", [_IMAGES, [0, 3, -3, 2]], _IMAGES.permute(0, 3, 1, 2)),
    Case("aten.squeeze_copy.dims", [_X[:, :1], [1]], _X[:, 0]),
    Case("aten.squeeze_copy.dims", [_X[:1], [0]], _X[0]),
    Case("aten.squeeze_copy.dims", [_X[None, :, :1], [0, 2]], _X[:, 0]),
    Case("aten.unsqueeze_copy.default", [_X, 1], _X[:, None]),
    Case("aten.unsqueeze_copy.default", [_X, -1], _X[..., None]),
    *(
        Case("aten.select_copy.int", [_X, axis, index], _X.select(axis, index))
        for axis, index in ((0, 1), (1, -1), (-1, 3))
    ),
    *(
        Case("aten.slice_copy.Tensor", [_X, axis, start, end, step], _X[_slice])
        for axis, start, end, step, _slice in (
            (2, 1, 2**63 - 1, 1, (..., slice(1, None))),
            (2, None, 4, 2, (..., slice(0, 4, 2))),
            (1, -2, 3, 1, (slice(None), slice(-2, None))),
        )
    ),
    Case("aten.split_with_sizes_copy.default", [_X, [2, 3], -1], torch.split(_X, [2, 3], -1)),
    Case("aten.split_with_sizes_copy.default", [_IMAGES, [1, 4], 1], torch.split(_IMAGES, [1, 4], 1)),
    *(
        Case(
            "aten.cat.default",
            [[_X, _X * 2, _X - 1, _X + 1], axis],
            torch.cat([_X, _X * 2, _X - 1, _X + 1], axis),
        )
        for axis in (0, 1, -1)
    ),
    Case("aten.cat.default", [[_IMAGES, _IMAGES[:, :2]], 1], torch.cat([_IMAGES, _IMAGES[:, :2]], 1)),
    Case("aten.expand_copy.default", [_Y, [2, 3, 5], False], _Y.expand(2, 3, 5)),
    Case("aten.repeat.default", [_X, [2, 1, 1, 2]], _X.repeat(2, 1, 1, 2)),
    Case("aten.repeat_interleave.self_int", [_X, 2, 1, None], _X.repeat_interleave(2, 1), (WIDTH, CHANNELS)),
    Case("aten.select.int", [_X, 0, 1], _X[1]),
    Case("aten.slice.Tensor", [_X, 1, 0, 2, 1], _X[:, :2]),
    Case("aten.flip.default", [_IMAGES, [1, 3]], _IMAGES.flip(1, 3), (CHANNELS,)),
    Case("aten.flip.default", [_IMAGES, [0, 1, 2]], _IMAGES.flip(0, 1, 2), (CHANNELS,)),
    Case("aten._to_copy.default", [_X * 3, *[None] * 6], (_X * 3).to(torch.int32)),
    Case("aten._to_copy.default", [_X, *[None] * 6], _X.half(), _TEXTURES),
    Case("aten._to_copy.default", [_X, *[None] * 6], _X, _TEXTURES),
    Case("dim_order_ops._to_dim_order_copy.default", [_X, *[None] * 6], _X, (BUFFER,)),
]

_M, _N = random(2, 6, 7), random(2, 7, 5)
_M4, _N4 = random(3, 8), random(8, 4)
_ROWS: Final = (BUFFER, WIDTH)
_W, _B = random(5, 7), random(5)

PRODUCTS: Final = [
    Case("aten.mm.default", [_M[0], _N[0]], _M[0] @ _N[0], _ROWS),
    Case("aten.mm.default", [_M4, _N4], _M4 @ _N4, _ROWS),
    Case("aten.mm.default", [_M4, K(_N4)], _M4 @ _N4, _ROWS),
    Case("aten.bmm.default", [_M, _N], _M @ _N, _ROWS),
    Case("aten.bmm.default", [_M, K(_N)], _M @ _N, _ROWS),
    Case("aten.addmm.default", [_B, _M[0], _N[0], 2.0, 0.5], 2 * _B + 0.5 * (_M[0] @ _N[0]), _ROWS),
    Case("aten.addmm.default", [K(_B), _M[0], K(_N[0]), 1, 1], _B + _M[0] @ _N[0], _ROWS),
    Case("aten.addmm.default", [random(6, 1), _M[0], _N[0], 0, 1], _M[0] @ _N[0], _ROWS),
    Case("aten.linear.default", [_M[0], K(_W), K(_B)], F.linear(_M[0], _W, _B), _ROWS),
    Case("aten.linear.default", [_M, K(_W), None], F.linear(_M, _W), _ROWS),
]

_NORMALIZED = random(2, 8, 5, 6)
_C = random(8)
_RMS = random(5)


def _group_norm() -> Case:
    out, mean, rstd = torch.native_group_norm(_NORMALIZED, _C, _C + 1, 2, 8, 30, 4, 1e-5)
    arguments = [_NORMALIZED, K(_C), K(_C + 1), 2, 8, 30, 4, 1e-5]
    return Case(
        "aten.native_group_norm.default",
        arguments,
        [out, mean, rstd],
        (CHANNELS,),
        {},
        {1: BUFFER, 2: BUFFER},
    )


def _layer_norm(x: torch.Tensor, placements: Sequence[Placement] = PLACEMENTS) -> Case:
    size = x.shape[-1]
    weight, bias = random(size), random(size)
    return Case(
        "aten.native_layer_norm.default",
        [x, [size], K(weight), K(bias), 1e-5],
        torch.native_layer_norm(x, [size], weight, bias, 1e-5),
        placements,
    )


NORMALIZATION: Final = [
    *(
        Case(f"aten._{name}.default", [x, axis, False], getattr(torch, name)(x, axis))
        for name in ("softmax", "log_softmax")
        for x, axis in ((_X, -1), (_X, 1), (_X, 0), (_NORMALIZED, -1), (_NORMALIZED, 2))
    ),
    _layer_norm(_X),
    _layer_norm(_NORMALIZED),
    _layer_norm(random(3, 4, 8), (BUFFER, HEIGHT, CHANNELS)),
    _layer_norm(random(3, 12, 12), (BUFFER, HEIGHT, CHANNELS)),
    _group_norm(),
    Case(
        "aten._native_batch_norm_legit_no_training.default",
        [_NORMALIZED, K(_C), K(_C + 1), K(_C * 2), K(_C.abs() + 1), 0.1, 1e-5],
        F.batch_norm(_NORMALIZED, _C * 2, _C.abs() + 1, _C, _C + 1),
        (CHANNELS,),
        listed=True,
    ),
    Case(
        "et_vk.rms_norm.default",
        [_X, K(_RMS), 1e-6],
        _X * (_X.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * _RMS,
        _ROWS,
    ),
]

REDUCTION: Final = [
    *(
        Case(f"aten.{name}", [x, [axis], True, *extra], function(x, axis, True), placements)
        for name, function, extra in (
            ("sum.dim_IntList", torch.sum, [None]),
            ("mean.dim", torch.mean, [None]),
            ("amax.default", torch.amax, []),
            ("amin.default", torch.amin, []),
        )
        for x, axis, placements in (
            (_X, -1, PLACEMENTS),
            (_X, 1, _TEXTURES),
            (_X, 0, _TEXTURES),
            (_IMAGE, 1, _TEXTURES),
        )
    ),
    Case("aten.sum.dim_IntList", [_X, [-1], False, None], _X.sum(-1), (BUFFER,)),
    Case("aten.sum.dim_IntList", [_INTEGERS, [-1], True, None], _INTEGERS.sum(-1, True).int(), (BUFFER,)),
    Case("aten.mean.dim", [_IMAGE, [-1, -2], True, None], _IMAGE.mean((-1, -2), True), (CHANNELS,)),
    Case("aten.amax.default", [_IMAGES, [2, 3], True], _IMAGES.amax((2, 3), True), (CHANNELS,)),
    Case("aten.argmax.default", [_X, -1, False], _X.argmax(-1).int(), (BUFFER,)),
    Case("aten.argmin.default", [_X, 2, True], _X.argmin(-1, True).int(), (BUFFER,)),
    Case("aten.var.dim", [_X, [-1], True, True], _X.var(-1, keepdim=True)),
    Case("aten.var.dim", [_X, [1], False, True], _X.var(1, correction=0, keepdim=True)),
]
