# SPDX-License-Identifier: Apache-2.0
"""Values of a graph from their descriptions: fake tensors, and symbolic scalars of one shape environment."""

from __future__ import annotations

import math
from typing import Any, Final

import sympy
import torch
from torch._export.serde import schema
from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges

from delegatec.frontend.pt2.expressions import SYMBOL, parse_expression
from delegatec.frontend.pt2.fields import (
    MalformedError,
    fail,
    flag,
    integer,
    items,
    number,
    record,
    text,
    union,
)

DTYPES: Final[dict[int, torch.dtype]] = {
    int(code): dtype for code, dtype in _SERIALIZE_TO_TORCH_DTYPE.items() if int(code) in [*schema.ScalarType]
}
_CPU: Final = torch.device("cpu")
_STRIDED: Final = int(schema.Layout.Strided)
_MOST_BYTES: Final = 2**62
_MOST_DIMS: Final = 64
_UNBACKED: Final = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)

# dtype, sizes, strides; a size is an int or the (description, hint) of a symbolic one
Description = tuple[torch.dtype, tuple[Any, ...], tuple[Any, ...], bool]

# Symbol -> its least and greatest value, if it has such: ranges of sympy's are created on demand.
Ranges = dict[str, tuple[int | None, int | None]]


def dtype_of(code: Any) -> torch.dtype:
    """Returns the dtype of a stored scalar."""
    found = DTYPES.get(code) if type(code) is int else None
    return found if found is not None else fail("unknown dtype")


def device_of(value: Any) -> torch.device:
    """Returns the device of a description: always the CPU."""
    device = record(value, "device")
    if device.get("type") != "cpu" or (device.get("index") is not None and device["index"] != 0):
        fail(f"device {text(device.get('type'), 'device')} is not supported: only cpu")
    return _CPU


def description_of(value: Any) -> Description:
    """Checks the description of a tensor."""
    meta = record(value, "tensor description")
    device_of(meta.get("device"))
    if type(meta.get("layout")) is not int or meta["layout"] != _STRIDED:
        fail("a tensor is not strided")
    _size(meta.get("storage_offset"), "storage_offset")
    sizes = tuple(_size(size, "size") for size in items(meta.get("sizes"), "sizes"))
    strides = tuple(_size(stride, "stride") for stride in items(meta.get("strides"), "strides"))
    if len(sizes) != len(strides) or len(sizes) > _MOST_DIMS:
        fail("sizes and strides of a tensor do not match")
    return dtype_of(meta.get("dtype")), sizes, strides, flag(meta.get("requires_grad"), "requires_grad")


def static_sizes(values: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """Returns sizes that must not be symbolic."""
    return values if all(type(value) is int for value in values) else fail(f"{what} is not an integer")


def extent(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Returns the number of elements from the first to the last of a strided tensor."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _size(value: Any, what: str) -> Any:
    """Returns an int, or the text and hint of a symbolic size."""
    kind, content = union(value, what)
    if kind == "as_int":
        return integer(content, what, 0)
    if kind != "as_expr":
        fail(f"{what} is neither an integer nor an expression")
    return _symbolic(content, "as_int")


def _symbolic(content: Any, expected: str) -> tuple[str, Any]:
    expression = record(content, "symbolic value")
    hint = expression.get("hint")
    if hint is not None:
        kind, hint = union(hint, "hint")
        if kind != expected:
            fail("a hint has the wrong type")
        hint = {"as_int": integer, "as_float": number}[kind](hint, "hint")
        if not math.isfinite(hint):
            fail("a hint is not finite")
    return text(expression.get("expr_str"), "symbolic value"), hint


class Values:
    """Creates the values of one program.

    Attributes:
        mode: the fake mode of its tensors.
        symbols: name -> symbol, of all expressions so far.
        unbacked: symbols whose value is known only at run time, and that no node defines so far.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.shape_env = ShapeEnv(assume_static_by_default=True)
        # No fallback: a kernel would run.
        self.mode = FakeTensorMode(
            allow_fallback_kernels=False, allow_non_fake_inputs=True, shape_env=self.shape_env
        )
        self.symbols: dict[str, Any] = {}
        self.unbacked: set[sympy.Symbol] = set()
        self._expressions: dict[Any, Any] = {}
        self._stored_ranges = ranges
        self._ranges: dict[str, ValueRanges[Any]] = {}
        counts = [int(name[1:]) + 1 for name in ranges if name[0] == "u"]
        self.shape_env.unbacked_symint_counter += max(counts, default=0)

    def tensor(self, description: Description) -> torch.Tensor:
        """Returns a fake tensor; raises MalformedError if its sizes are invalid."""
        dtype, sizes, strides, requires_grad = description
        if all(type(size) is int for size in sizes + strides):
            if max(extent(sizes, strides), math.prod(sizes)) * dtype.itemsize > _MOST_BYTES:
                fail("a tensor is too large")
            with torch.inference_mode(False):
                meta = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
            found: torch.Tensor = FakeTensor(self.mode, meta, _CPU)
        else:
            # torch asks whether the tensor is empty, and the answer for the example would be a constraint
            oblivious = _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
            with self.mode, oblivious:
                found = torch.empty_strided(
                    [self._integer(size) for size in sizes],
                    [self._integer(stride) for stride in strides],
                    dtype=dtype,
                    device="cpu",
                )
        return found.requires_grad_() if requires_grad else found

    def symbolic_integer(self, value: Any) -> Any:
        """Returns the int or SymInt of a description."""
        return self._integer(_size_or_negative(value))

    def symbolic_float(self, value: Any) -> Any:
        """Returns the float or SymFloat of a description."""
        kind, content = union(value, "symbolic float")
        if kind == "as_float":
            return number(content, "float")
        if kind != "as_expr":
            fail("a symbolic float is neither a float nor an expression")
        expression, hint = _symbolic(content, "as_float")
        return self.shape_env.create_symfloatnode(self._expression(expression, hint), hint=hint)

    def symbolic_bool(self, value: Any) -> Any:
        """Returns the bool or SymBool of a description."""
        kind, content = union(value, "symbolic bool")
        if kind == "as_bool":
            return flag(content, "bool")
        if kind != "as_expr":
            fail("a symbolic bool is neither a bool nor an expression")
        found = self._expression(text(record(content, "bool").get("expr_str"), "bool"), None)
        if not isinstance(found, sympy.logic.boolalg.Boolean):
            fail("a symbolic bool is not a condition")
        return self.shape_env.create_symboolnode(found)

    def ranges(self) -> dict[Any, ValueRanges[Any]]:
        """Returns the bounds of the symbols, and of the expressions that have some."""
        found = {
            self.symbols[name]: self._range(name) for name in self._stored_ranges if name in self.symbols
        }
        return {symbol: bounds for symbol, bounds in found.items() if bounds is not None}

    def _range(self, name: str) -> ValueRanges[Any] | None:
        if name not in self._ranges and name in self._stored_ranges:
            low, high = self._stored_ranges[name]
            infinity = sympy.oo if name.startswith("z") else int_oo  # z: a float
            lower = -infinity if low is None else sympy.Integer(low)
            self._ranges[name] = ValueRanges(lower, infinity if high is None else sympy.Integer(high))
        return self._ranges.get(name)

    def _integer(self, size: Any) -> Any:
        if type(size) is int:
            return size
        expression, hint = size
        found = self._expression(expression, hint)
        if not found.is_integer:
            fail(f"a symbolic size is not an integer: {expression[:60]}")
        return self.shape_env.create_symintnode(found, hint=hint)

    def _expression(self, written: str, hint: Any) -> Any:
        key = written, hint, type(hint)
        if key not in self._expressions:
            self._expressions[key] = self._declared(parse_expression(written), hint)
        return self._expressions[key]

    def _declared(self, expression: Any, hint: Any = None) -> Any:
        """Declares an expression and its parts in the shape environment, as torch does on reading."""
        if expression.is_Integer or expression.is_Float or (expression.is_Boolean and not expression.args):
            return expression
        name = str(expression)
        for part in expression.args:
            self._declared(part)
        if name in self.symbols:
            expression = self.symbols[name]
        else:
            self.symbols[name] = expression
            if isinstance(expression, sympy.Symbol) and symbol_is_type(expression, _UNBACKED):
                self.unbacked.add(expression)
        if hint is not None and expression not in self.shape_env.backed_var_to_val:
            self.shape_env.add_backed_var_to_val(expression, hint)
        if isinstance(expression, sympy.Symbol):
            bounds = self._range(name)
            if bounds is None:
                fail(f"range_constraints: {name} is missing")
            self.shape_env.constrain_symbol_range(
                expression, compiler_min=bounds.lower, compiler_max=bounds.upper
            )
        return expression


def _size_or_negative(value: Any) -> Any:
    kind, content = union(value, "symbolic integer")
    return integer(content, "integer") if kind == "as_int" else _size(value, "symbolic integer")


def ranges_of(value: Any) -> Ranges:
    """Returns symbol -> least and greatest value, of the range constraints of a program; None for no bound.

    Sizes of inputs that are computed from symbols have bounds, too: `32*s7` of `32 * torch.export.Dim("n")`.
    """
    found: Ranges = {}
    for name, bounds in record(value, "range_constraints").items():
        if not SYMBOL.search(name):
            raise MalformedError(f"range_constraints: {name} has no symbol")
        both = (record(bounds, "bounds").get(key) for key in ("min_val", "max_val"))
        low, high = (None if each is None else integer(each, "bounds") for each in both)
        if low is not None and high is not None and low > high:
            fail("bounds of a symbol are reversed")
        found[name] = low, high
    return found
