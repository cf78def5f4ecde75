# SPDX-License-Identifier: Apache-2.0
"""The combinations of types that operations have kernels for.

Convolutions of float32 images with float16 filters and float32 biases are left out: the runtime accepts them,
and reads their biases as float16.

Source: the definitions of nodes in XNNPACK's subgraph folder. The stock runtime accepts these combinations
and refuses the others (tests/oracle/xnnpack_refusals_test.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from delegatec_schemas.xnnpack_graph import DataType

from delegatec.backends.xnnpack.operands import CONCATENATIONS

_F32, _F16, _BF16, _I32 = DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32
_I8, _U8, _ROWS = DataType.INT8, DataType.UINT8, DataType.DYNAMIC_INT8
_C8, _C4, _G4 = DataType.CHANNEL_INT8, DataType.CHANNEL_INT4, DataType.GROUP_INT4
_BIAS, _C32 = DataType.BIAS_INT32, DataType.CHANNEL_INT32

Signature = tuple[int, ...]
"""Types of operands, then of results."""


def _same(types: Iterable[int], count: int) -> frozenset[Signature]:
    return frozenset((each,) * count for each in types)


def _optional_bias(*signatures: Signature) -> frozenset[Signature]:
    """Returns signatures (input, filter, bias, output), and those without the bias."""
    return frozenset({*signatures, *((each[0], each[1], each[3]) for each in signatures)})


_ARITHMETIC: Final = (_F32, _F16, _BF16, _I8, _U8)
_HALVES: Final = ((_F32, _F32, _F32, _F32), (_F16, _F32, _F32, _F16), (_F32, _F16, _F16, _F32))
_QUANTIZED: Final = ((_I8, _I8, _BIAS, _I8), (_I8, _C8, _C32, _I8), (_U8, _U8, _BIAS, _U8))
_UNARY: Final = _same(_ARITHMETIC, 2)
_UNARY_OR_INTEGERS: Final = _same((*_ARITHMETIC, _I32), 2)
_BINARY_OR_INTEGERS: Final = _same((*_ARITHMETIC, _I32), 3)
_MOVED: Final = (*_ARITHMETIC, _I32)
_CONVERTED: Final = frozenset({*itertools.product(_MOVED, _MOVED), (_F32, _ROWS), (_F16, _ROWS)})

SIGNATURES: Final[dict[str, frozenset[Signature]]] = {
    **dict.fromkeys(
        (
            *("Ceiling", "Cos", "Elu", "Exp", "Floor", "Gelu", "HardSwish", "LeakyRelu", "Log"),
            *("ReciprocalSquareRoot", "Sigmoid", "Sin", "SquareRoot", "Tanh"),
        ),
        _UNARY,
    ),
    **dict.fromkeys(("Absolute", "Clamp", "Negate", "Square"), _UNARY_OR_INTEGERS),
    **dict.fromkeys(("Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"), _BINARY_OR_INTEGERS),
    "Prelu": _same(_ARITHMETIC, 3),
    "Convert": _CONVERTED,
    **dict.fromkeys(("Copy", "Reshape", "Transpose", "Slice"), _same(_MOVED, 2)),
    "ConstantPad": _same(_ARITHMETIC, 2),
    **{name: _same(_MOVED, count + 1) for name, count in CONCATENATIONS.items()},
    "Softmax": _same((_F32, _F16), 2),
    "GlobalAveragePooling": _same((_F32, _F16, _I8, _U8), 2),
    "AveragePooling": _same((_F32, _F16), 2),
    **dict.fromkeys(("MaxPooling", "ResizeBilinear"), _same((_F32, _F16, _I8, _U8), 2)),
    "ArgMaxPooling": frozenset({(_F32, _F32, _I32)}),
    "BatchMatrixMultiply": frozenset({*_same((_F32, _F16, _I8), 3), (_ROWS, _C8, _F32)}),
    "FullyConnected": _optional_bias(
        *_HALVES,
        *_QUANTIZED,
        (_F32, _F16, _F32, _F32),
        (_F16, _F16, _F16, _F16),
        *((_F32, weights, _F32, _F32) for weights in (_C8, _C4)),
        *((_ROWS, weights, _F32, result) for weights in (_C8, _C4, _G4) for result in (_F32, _F16)),
        (_I8, _C4, _C32, _I8),
    ),
    "Convolution": _optional_bias(*_HALVES, *_QUANTIZED, (_ROWS, _C8, _F32, _F32), (_ROWS, _C8, _F32, _F16)),
    "DepthwiseConvolution": _optional_bias(*_HALVES, *_QUANTIZED),
    "TransposedConvolution": _optional_bias(*_HALVES, *_QUANTIZED, (_ROWS, _C8, _F32, _F32)),
}
