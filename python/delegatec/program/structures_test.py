# SPDX-License-Identifier: Apache-2.0
"""Bytes of the runtime's structures, counted by hand; `tests/e2e/arenas_test.py` has those of the runtime."""

from __future__ import annotations

import pytest

from delegatec.program.reader.model import (
    Chain,
    CompileSpec,
    Delegate,
    DelegateCall,
    DoubleList,
    Dynamism,
    Instruction,
    IntList,
    KernelCall,
    Method,
    MoveCall,
    Program,
    Tensor,
    TensorList,
    Value,
)
from delegatec.program.reader.types import SCALAR_KINDS
from delegatec.program.structures import SIZES_32, SIZES_64, loading_bytes, method_bytes, temporary_bytes

_FLOAT = next(kind for kind in SCALAR_KINDS.values() if kind.name == "float32")


def _tensor(sizes: tuple[int, ...], dynamism: Dynamism = Dynamism.STATIC, key: str | None = None) -> Tensor:
    return Tensor(_FLOAT, sizes, tuple(range(len(sizes))), dynamism, None, 0, None, key, "")


def _method(
    values: tuple[Value, ...],
    inputs: tuple[int, ...] = (),
    instructions: tuple[Instruction, ...] = (),
    delegates: tuple[Delegate, ...] = (),
) -> Method:
    return Method("m", inputs, (), values, ("a::b",), (Chain(instructions),), delegates, (0,))


def _bytes(method: Method, handle: int = 0, *, named: bool = False, weights: bool = False) -> tuple[int, int]:
    program = Program(0, 0, (method,), (), {"key": 0} if named else {})
    handles = [handle] * len(method.delegates)
    wide, narrow = (
        method_bytes(program, method, handles, sizes, has_weights=weights) for sizes in (SIZES_64, SIZES_32)
    )
    return wide, narrow


# One value, no instructions: an EValue, a Chain, and two empty lists.
_LEAST = (16 + 32, 16 + 16)


@pytest.mark.parametrize(
    ("value", "wide", "narrow"),
    [
        (7, 0, 0),
        (None, 0, 0),
        ("gelu", 16, 8),
        (DoubleList((1.0, 2.0)), 16, 8),
        # pointers, integers, the list; on 32 bits, the integers begin at a multiple of 8
        (IntList((0, 0, 0)), 24 + 24 + 24, 12 + 4 + 24 + 12),
        (TensorList((0, 0)), 16 + 16 + 24, 8 + 8 + 12),
        (TensorList((0, 0), optional=True), 32 + 16 + 24, 16 + 8 + 12),
        # strides, and padding to a multiple of 8
        (_tensor((2, 3, 4)), 12 + 4 + 64, 12 + 32),
        (_tensor(()), 64, 32),
        # sizes, orders, padding to a multiple of 4, strides
        (_tensor((2, 3), Dynamism.BOUND), 8 + 2 + 2 + 8 + 4 + 64, 8 + 2 + 2 + 8 + 32),
        (_tensor((2, 3), key="w"), 48 + 8 + 64, 40 + 8 + 32),
    ],
)
def test_values(value: Value, wide: int, narrow: int) -> None:
    # what follows a delegate list, aligned to 8 even if it is empty
    found = _bytes(_method((value,)))
    expected = (_LEAST[0] + wide, _LEAST[1] + narrow + (-narrow % 8))
    assert found == expected


def test_instructions_and_inputs() -> None:
    call = KernelCall(0, (0, 0, 0))
    method = _method((1,), inputs=(0,), instructions=(call, MoveCall(0, 0), DelegateCall(0, (0,))))
    # EValue, a bool with padding, a Chain, three kernels, three lists of arguments, four arguments
    assert _bytes(method) == (16 + 8 + 32 + 24 + 48 + 32, 16 + 8 + 16 + 12 + 24 + 16)
    assert loading_bytes(method, SIZES_64) == 3 * (24 + 16)
    assert loading_bytes(method, SIZES_32) == 3 * (12 + 16)
    assert temporary_bytes(method, [1000, 5], SIZES_64) == 1000
    assert loading_bytes(_method((1,)), SIZES_64) == 0


def test_delegates_and_external_data() -> None:
    delegate = Delegate("B", memoryview(b""), None, (CompileSpec("a", b""), CompileSpec("b", b"")))
    method = _method((1,), delegates=(delegate, delegate))
    plain = (_LEAST[0] + 2 * (56 + 48), _LEAST[1] + 2 * (40 + 24))
    assert _bytes(method) == _bytes(method, named=True) == _bytes(method, weights=True) == plain
    assert _bytes(method, named=True, weights=True)[0] == plain[0] + 24
    assert _bytes(method, handle=100)[0] == plain[0] + 2 * 104
