# SPDX-License-Identifier: Apache-2.0
"""Rules of single operators on shapes and attributes. Source: TOSA 1.0."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from delegatec_schemas.tosa_graph import DType, RoundingMode

from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.conformance.limits import MOST_SCALE
from delegatec.backends.arm.specification import TosaSpecification

Rule = Callable[[Operation], Iterator[str]]

_MOST_NUMERATOR: Final = 1 << 11
_MOST_RESIZED: Final = 16384


def _sizes(value: Value) -> tuple[int, ...]:
    return value.elements if value.is_shape and value.elements is not None else value.shape


def _broadcast(operation: Operation) -> Iterator[str]:
    operands = [each.shape for each in operation.inputs[: _BROADCAST[operation.name]]]
    ranks = {len(shape) for shape in operands}
    if len(ranks) > 1:
        yield f"operands of the ranks {sorted(ranks)}, which must be equal"
        return
    for sizes in zip(*operands, operation.outputs[0].shape, strict=True):
        if len({size for size in sizes[:-1] if size != 1}) > 1:
            yield f"operands of shapes {', '.join(str(list(shape)) for shape in operands)} do not broadcast"
            return


_BROADCAST: Final = {
    **dict.fromkeys(
        (
            *("ADD", "SUB", "MUL", "POW", "INTDIV", "MAXIMUM", "MINIMUM"),
            *("EQUAL", "GREATER", "GREATER_EQUAL"),
            *("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR"),
            *("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT"),
        ),
        2,
    ),
    "SELECT": 3,
}


def _window(operation: Operation) -> Iterator[str]:
    """Checks that windows end exactly at the end of the padded operand."""
    source, result, attributes = operation.inputs[0], operation.outputs[0], operation.attributes
    is_pool = operation.name.endswith("POOL2D")
    kernel = _kernel_of(operation)
    pad, stride = list(attributes["pad"]), list(attributes["stride"])
    dilation = list(attributes.get("dilation") or [1] * len(kernel))
    if any(each < 0 for each in pad):
        yield f"negative padding {pad}"
    if is_pool and any(
        size <= each for size, each in zip([k for k in kernel for _ in range(2)], pad, strict=True)
    ):
        yield f"padding {pad} is not smaller than the kernel {list(kernel)}"
    for dim, size in enumerate(kernel):
        room = source.shape[1 + dim] + pad[2 * dim] + pad[2 * dim + 1] - (size - 1) * dilation[dim] - 1
        if room < 0 or room % stride[dim] or result.shape[1 + dim] != room // stride[dim] + 1:
            padded = f"{source.shape[1 + dim]} + {pad[2 * dim]} + {pad[2 * dim + 1]} elements"
            yield f"windows of {size} with a stride of {stride[dim]} do not divide {padded}"


def _kernel_of(operation: Operation) -> Sequence[int]:
    if operation.name.endswith("POOL2D"):
        return list(operation.attributes["kernel"])
    weight = operation.inputs[1].shape
    return weight[:2] if operation.name == "DEPTHWISE_CONV2D" else weight[1:-1]


def _transposed(operation: Operation) -> Iterator[str]:
    source, weight, result = operation.inputs[0].shape, operation.inputs[1].shape, operation.outputs[0].shape
    pad, stride = operation.attributes["out_pad"], operation.attributes["stride"]
    for dim in range(2):
        before, after = pad[2 * dim : 2 * dim + 2]
        if min(before, after) <= -weight[1 + dim]:
            yield f"padding {list(pad)} of the result removes a kernel of {weight[1 + dim]}"
        if result[1 + dim] != (source[1 + dim] - 1) * stride[dim] + before + after + weight[1 + dim]:
            yield f"a result of {result[1 + dim]} elements from {source[1 + dim]}"


def _resize(operation: Operation) -> Iterator[str]:
    scale, offset, border = (_sizes(each) for each in operation.inputs[1:4])
    source, result = operation.inputs[0].shape, operation.outputs[0].shape
    for dim, what in enumerate(("height", "width")):
        n, d = scale[2 * dim : 2 * dim + 2]
        if not 0 < n <= _MOST_NUMERATOR or d >= 16 * n or n > MOST_SCALE * d:
            yield f"a scale of {n}/{d} of the {what}; it is above 1/16, at most {MOST_SCALE}"
        if not -n <= offset[dim] < 16 * n or not -16 * n <= border[dim] < n:
            yield f"an offset of {offset[dim]} and a border of {border[dim]} for a scale of {n}/{d}"
        length = (source[1 + dim] - 1) * n - offset[dim] + border[dim]
        if length % d or result[1 + dim] != length // d + 1:
            yield f"a {what} of {source[1 + dim]} to {result[1 + dim]} with a scale of {n}/{d}"
    if max(*source[1:3], *result[1:3]) >= _MOST_RESIZED:
        yield f"an image of {_MOST_RESIZED} elements or more in a dimension"


def _rescale(operation: Operation) -> Iterator[str]:
    source, result = operation.inputs[0], operation.outputs[0]
    scale32 = operation.attributes["scale32"]
    if source.dtype == DType.INT48 and scale32:
        yield "multipliers of 32 bits for INT48"
    if operation.attributes["rounding_mode"] == RoundingMode.DOUBLE_ROUND and not scale32:
        yield "double rounding with multipliers of 16 bits"
    for value, zero in ((source, operation.inputs[3]), (result, operation.inputs[4])):
        if value.dtype not in (DType.INT8, DType.INT16) and any(zero.elements or ()):
            yield f"a zero point of {value}"


def _reshape(operation: Operation) -> Iterator[str]:
    source, result = operation.inputs[0].shape, operation.outputs[0].shape
    if math.prod(source) != math.prod(result):
        yield f"{list(source)} to {list(result)}"


def _slice(operation: Operation) -> Iterator[str]:
    starts, sizes = (_sizes(each) for each in operation.inputs[1:3])
    source = operation.inputs[0].shape
    for start, size, length in zip(starts, sizes, source, strict=True):
        if start < 0 or size < 1 or start + size > length:
            yield f"elements {start} to {start + size} of {length}"


def _pad(operation: Operation) -> Iterator[str]:
    source, pad, result = operation.inputs[0].shape, _sizes(operation.inputs[1]), operation.outputs[0].shape
    padded = tuple(size + sum(pad[2 * dim : 2 * dim + 2]) for dim, size in enumerate(source))
    if min(pad, default=0) < 0 or len(pad) != 2 * len(source) or padded != result:
        yield f"padding {list(pad)} of {list(source)} to {list(result)}"


def _tile(operation: Operation) -> Iterator[str]:
    source, counts = operation.inputs[0].shape, _sizes(operation.inputs[1])
    tiled = tuple(size * count for size, count in zip(source, counts, strict=True))
    if tiled != operation.outputs[0].shape:
        yield f"{list(source)} repeated {list(counts)} times to {list(operation.outputs[0].shape)}"


def _ranked(*ranks: int, operand: int = 0) -> Rule:
    def rule(operation: Operation) -> Iterator[str]:
        rank = len(operation.inputs[operand].shape)
        if rank not in ranks:
            yield f"an operand of {rank} dimensions; it has {' or '.join(map(str, ranks))}"

    return rule


def _not_scalar(operation: Operation) -> Iterator[str]:
    if not operation.inputs[0].shape:
        yield "an operand of no dimensions"


def _gather(operation: Operation) -> Iterator[str]:
    values, indices = (each.shape for each in operation.inputs[:2])
    if len(values) != 3 or len(indices) != 2 or values[0] != indices[0]:
        yield f"values of shape {list(values)} and indices of shape {list(indices)}"


def _condition(operation: Operation) -> Iterator[str]:
    condition = operation.inputs[0]
    if condition.dtype != DType.BOOL or math.prod(condition.shape) != 1:
        yield f"a condition {condition}, which must be one BOOL"


def _state(operation: Operation) -> Iterator[str]:
    given, results = ([str(value) for value in values] for values in (operation.inputs, operation.outputs))
    if given != results:
        yield f"results {', '.join(results)} of operands {', '.join(given)}"


def _blocks(operation: Operation) -> Iterator[str]:
    block = operation.attributes["block_size"]
    pairs = [operation.inputs[:2], operation.inputs[2:4]]
    if operation.name == "CAST_TO_BLOCK_SCALED":
        pairs = [operation.outputs]
        if operation.outputs[0].shape != operation.inputs[0].shape:
            yield f"{operation.inputs[0]} to {operation.outputs[0]}"
    if block != 32:
        yield f"blocks of {block} elements"
        return
    for value, scales in pairs:
        *outer, channels = value.shape
        if channels % block or scales.shape != (*outer, channels // block):
            yield f"{value} in blocks of {block} with {scales}"


def _product_of_blocks(operation: Operation) -> Iterator[str]:
    x, y = (operation.inputs[index].shape for index in (0, 2))
    if len(x) != 3 or len(y) != 3 or x[2] != y[2] or y[0] not in (1, x[0]):
        yield f"matrices of shapes {list(x)} and {list(y)}"
    elif operation.outputs[0].shape != (x[0], x[1], y[1]):
        yield f"a result {operation.outputs[0]} of matrices of shapes {list(x)} and {list(y)}"


def _convolution_of_blocks(operation: Operation) -> Iterator[str]:
    x, _, weight, _, bias, *sizes = operation.inputs
    names = ("pad", "stride", "dilation")
    attributes = {name: list(_sizes(value)) for name, value in zip(names, sizes, strict=True)}
    if len(x.shape) != 4 or len(weight.shape) != 4 or x.shape[3] != weight.shape[3]:
        yield f"images {x} and kernels {weight}"
        return
    yield from _window(Operation("CONV2D", (x, weight, bias), operation.outputs, attributes))


_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "COND_IF": (_condition,),
    "WHILE_LOOP": (_state,),
    **dict.fromkeys(_BROADCAST, (_broadcast,)),
    **dict.fromkeys(("CONV2D", "DEPTHWISE_CONV2D"), (_ranked(4), _ranked(4, operand=1), _window)),
    "CONV3D": (_ranked(5), _ranked(5, operand=1), _window),
    **dict.fromkeys(("AVG_POOL2D", "MAX_POOL2D"), (_ranked(4), _window)),
    "TRANSPOSE_CONV2D": (_ranked(4), _ranked(4, operand=1), _transposed),
    "MATMUL": (_ranked(3), _ranked(3, operand=1)),
    "CAST_TO_BLOCK_SCALED": (_not_scalar, _blocks),
    "MATMUL_T_BLOCK_SCALED": (_blocks, _product_of_blocks),
    "CONV2D_BLOCK_SCALED": (_blocks, _convolution_of_blocks),
    "RESIZE": (_ranked(4), _resize),
    "RESCALE": (_rescale,),
    "RESHAPE": (_reshape,),
    "SLICE": (_not_scalar, _slice),
    **dict.fromkeys(("GATHER", "SCATTER"), (_gather,)),
    "PAD": (_not_scalar, _pad),
    "TILE": (_not_scalar, _tile),
    **dict.fromkeys(
        (
            *("ARGMAX", "CONCAT", "REVERSE", "TRANSPOSE", "REDUCE_ALL", "REDUCE_ANY"),
            *("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM"),
        ),
        (_not_scalar,),
    ),
}


def rule_problems(operation: Operation, specification: TosaSpecification) -> Iterator[str]:
    """Yields the rules that an operator breaks."""
    for rule in _RULES.get(operation.name, ()):
        yield from rule(operation)
    rounding: Any = operation.attributes.get("rounding_mode")
    for mode, extension in _ROUNDING.items():
        if rounding == mode and extension not in specification.extensions:
            yield f"rounding needs the extension {extension}, which {specification} does not include"


_ROUNDING: Final = {
    RoundingMode.DOUBLE_ROUND: "doubleround",
    RoundingMode.INEXACT_ROUND: "inexactround",
}
