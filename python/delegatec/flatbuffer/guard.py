# SPDX-License-Identifier: Apache-2.0
"""Reader of FlatBuffers that may be damaged or malicious.

The Python library of FlatBuffers has no verifier: its accessors trust every offset. `Table` calls them one by
one and turns each failure into a diagnostic that names the field; `unpack` calls them all at once. Effects of
bad offsets:

*   scalars and vectors of scalars: struct and numpy check the bounds and raise;
*   a negative position: the library raises (it accepts uint32 only);
*   strings: a slice, which Python would truncate silently: `_Bytes` raises.

Wrong offsets can also be in bounds, and many can point to one object, so that a small file would expand to a
huge one: a budget limits the number of tables and of elements. Schemas without cycles rule out cycles.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from delegatec.diagnostics import DelegatecError, Diagnostic

_T = TypeVar("_T")
_ACCESSOR_ERRORS = (struct.error, IndexError, TypeError, ValueError, OverflowError)


def fail(code: str, message: str, help: str = "") -> NoReturn:
    """Raises one diagnostic about a file."""
    raise DelegatecError([Diagnostic(code=code, message=message, help=help)])


class Budget:
    """Limits the number of tables and elements read from one FlatBuffer.

    Every reference to a table takes four bytes, and a string or vector at least one byte per element: a file
    without shared objects stays below these limits.

    Args:
        size: bytes of the FlatBuffer.
        sharing: how often each of its bytes may be read as an element.
    """

    def __init__(self, size: int, sharing: int) -> None:
        self._tables = size // 4 + 1024
        self._elements = size * sharing + 1024

    def table(self) -> None:
        """Counts one table; raises ValueError beyond the limit."""
        self._tables -= 1
        if self._tables < 0:
            raise ValueError("more tables than the file can contain")

    def elements(self, count: int) -> None:
        """Counts elements of a vector, or bytes of a string; raises ValueError beyond the limit."""
        self._elements -= count
        if self._elements < 0:
            raise ValueError("more elements than the file can contain")


class _Bytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes whose slices, the strings, are bounds-checked and counted.

    An array, because memoryview cannot be subclassed.
    """

    budget: Budget

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            if not 0 <= key.start <= key.stop <= self.size:
                raise IndexError(f"bytes {key.start} to {key.stop} of {self.size}")
            self.budget.elements(key.stop - key.start)
        return super().__getitem__(key)


def _checked(buffer: memoryview, sharing: int) -> _Bytes:
    checked = np.frombuffer(buffer, np.uint8).view(_Bytes)
    checked.budget = Budget(checked.size, sharing)
    return checked


def unpack(generated: Any, buffer: memoryview) -> Any:
    """Unpacks a FlatBuffer to objects of the generated classes.

    Vectors become lists of Python scalars, except those of bytes, which are views; absent fields are None.

    Args:
        generated: the class of the root, such as `GraphT`.
        buffer: one FlatBuffer.

    Raises:
        ValueError: an offset is out of bounds, or objects are shared too often.
    """
    checked = _checked(buffer, sharing=1)
    try:
        root = generated.InitFromPackedBuf(checked, 0)
    except _ACCESSOR_ERRORS as error:
        raise ValueError(str(error)) from error
    _convert_vectors(root, checked.budget)
    return root


def _convert_vectors(owner: Any, budget: Budget) -> None:
    budget.table()
    for name, field in vars(owner).items():
        if isinstance(field, np.ndarray) and field.dtype != np.uint8:
            budget.elements(field.size)
            setattr(owner, name, field.tolist())
        else:
            for item in field if isinstance(field, list) else [field]:
                if hasattr(item, "__dict__"):
                    _convert_vectors(item, budget)


class Table:
    """A table of a FlatBuffer, read through its generated class.

    Fields are named as the generated accessors are, such as "ExecutionPlan".

    Args:
        accessor: an initialized instance of the generated class.
        path: of the table, for messages, such as "execution_plan[0].values[3]".
        code: of the diagnostics about it.
        budget: of the file.
    """

    __slots__ = ("_accessor", "_budget", "_code", "path")

    def __init__(self, accessor: Any, path: str, code: str, budget: Budget) -> None:
        self._accessor = accessor
        self.path = path
        self._code = code
        self._budget = budget
        _guarded(budget.table, path, code)

    @classmethod
    def root(cls, generated: Any, buffer: memoryview, code: str) -> Table:
        """Returns the root table of a buffer that holds one FlatBuffer."""
        checked = _checked(buffer, sharing=8)
        accessor = _guarded(lambda: generated.GetRootAs(checked, 0), "", code)
        return cls(accessor, "", code, checked.budget)

    def fail(self, message: str) -> NoReturn:
        """Raises a diagnostic about this table."""
        fail(self._code, f"{self.path}: {message}")

    def _at(self, field: str, index: int | None = None) -> str:
        name = f"{self.path}.{field}" if self.path else field
        return name if index is None else f"{name}[{index}]"

    def _call(self, field: str, *args: int) -> Any:
        accessor = getattr(self._accessor, field)
        return self._guarded(lambda: accessor(*args), self._at(field, *args))

    def _guarded(self, read: Callable[[], _T], path: str) -> _T:
        return _guarded(read, path, self._code)

    def _child(self, accessor: Any, path: str) -> Table:
        return Table(accessor, path, self._code, self._budget)

    def scalar(self, field: str) -> int:
        """Reads an integer or an enum."""
        return cast(int, self._call(field))

    def boolean(self, field: str) -> bool:
        """Reads a bool. Any byte but 0 counts as true."""
        return bool(self._call(field))

    def double(self, field: str) -> float:
        """Reads a float."""
        return float(self._call(field))

    def text(self, field: str) -> str:
        """Reads a string; empty if it is absent."""
        raw = cast("bytes | None", self._call(field))
        if raw is None:
            return ""
        return self._guarded(lambda: raw.decode("utf-8"), self._at(field))

    def array(self, field: str) -> tuple[Any, ...]:
        """Reads a vector of scalars; empty if it is absent."""
        length = self._length(field)
        if length == 0:
            return ()
        self._guarded(lambda: self._budget.elements(length), self._at(field))
        return tuple(self._call(f"{field}AsNumpy").tolist())

    def blob(self, field: str) -> memoryview:
        """Reads a vector of bytes without a copy; empty if it is absent."""
        if self._length(field) == 0:
            return memoryview(b"")
        return memoryview(self._call(f"{field}AsNumpy")).cast("B").toreadonly()

    def child(self, field: str) -> Table | None:
        """Reads a table; None if it is absent."""
        accessor = self._call(field)
        return None if accessor is None else self._child(accessor, self._at(field))

    def children(self, field: str) -> Iterator[Table]:
        """Yields a vector of tables; empty if it is absent."""
        for index in range(self._length(field)):
            yield self._child(self._call(field, index), self._at(field, index))

    def union(self, field: str, members: dict[int, Any]) -> tuple[int, Table | None]:
        """Reads a union.

        Args:
            field: its name.
            members: tag -> generated class.

        Returns:
            The tag (0 if the union is absent) and the table (None if that is absent).
        """
        tag = self.scalar(f"{field}Type")
        if tag == 0:
            return 0, None
        generated = members.get(tag)
        if generated is None:
            self.fail(f"unknown type of {field}: {tag}")
        raw = self._call(field)
        if raw is None:
            return tag, None
        accessor = generated()
        self._guarded(lambda: accessor.Init(raw.Bytes, raw.Pos), self._at(field))
        return tag, self._child(accessor, f"{self.path}.{generated.__name__}")

    def _length(self, field: str) -> int:
        return cast(int, self._call(f"{field}Length"))


def _guarded(read: Callable[[], _T], path: str, code: str) -> _T:
    try:
        return read()
    except _ACCESSOR_ERRORS as error:
        what = "it points out of bounds" if isinstance(error, struct.error) else str(error)
        fail(code, f"{path or 'root'}: {what}", "the file is damaged: build or fetch it again")
