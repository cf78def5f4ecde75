# SPDX-License-Identifier: Apache-2.0
"""Reading FlatBuffers that may be damaged.

The Python library of FlatBuffers has no verifier: its accessors trust every offset. They are called through
`Table` here, which turns each way in which an accessor can fail into one diagnostic that names the field, and
bounds what can be read. What the accessors do with a bad offset:

*   scalars and vectors of scalars: struct and numpy check the bounds and raise;
*   a negative position: the library refuses it (it accepts uint32 only);
*   strings: a slice, which Python would cut short without a word: `_Bytes` refuses it.

An offset can also be wrong and still lie inside, and can be shared, so that a small file would unfold to a
huge one: a budget bounds the number of tables and of elements. The schema has no cycles, so files have none.
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
    """Raises one diagnostic about the file."""
    raise DelegatecError([Diagnostic(code=code, message=message, help=help)])


class _Bytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes whose slices must lie inside of them: an array, for a memoryview cannot be subclassed."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice) and not 0 <= key.start <= key.stop <= self.size:
            raise IndexError(f"bytes {key.start} to {key.stop} of {self.size}")
        return super().__getitem__(key)


class Budget:
    """How much may still be read of one FlatBuffer.

    Every reference to a table takes four bytes and a string or vector at least its elements, so a file in
    which nothing is shared stays far below these limits.

    Args:
        size: bytes of the FlatBuffer.
    """

    def __init__(self, size: int) -> None:
        self._tables = size // 4 + 1024
        self._elements = size * 8 + 1_000_000

    def table(self, path: str) -> None:
        """Accounts for one table."""
        self._tables -= 1
        if self._tables < 0:
            fail("DC352", f"{path}: the file refers to more tables than it can hold")

    def elements(self, count: int, path: str) -> None:
        """Accounts for elements of a vector, or characters of a string."""
        self._elements -= count
        if self._elements < 0:
            fail("DC352", f"{path}: the file refers to more data than it can hold")


class Table:
    """A table of a FlatBuffer, read through its generated class.

    Fields are named as the generated accessors are, such as "ExecutionPlan".

    Args:
        accessor: an initialised instance of the generated class.
        path: where the table is, for messages, such as "execution_plan[0].values[3]".
        budget: of the file.
    """

    __slots__ = ("_accessor", "_budget", "path")

    def __init__(self, accessor: Any, path: str, budget: Budget) -> None:
        self._accessor = accessor
        self.path = path
        self._budget = budget
        budget.table(path)

    @classmethod
    def root(cls, generated: Any, buffer: memoryview) -> Table:
        """The root table of a buffer that holds one FlatBuffer."""
        checked = np.frombuffer(buffer, np.uint8).view(_Bytes)
        budget = Budget(len(buffer))
        return cls(_guarded(lambda: generated.GetRootAs(checked, 0), "root"), "", budget)

    def fail(self, message: str) -> NoReturn:
        """Raises a diagnostic about this table."""
        fail("DC352", f"{self.path}: {message}")

    def _at(self, field: str, index: int | None = None) -> str:
        name = f"{self.path}.{field}" if self.path else field
        return name if index is None else f"{name}[{index}]"

    def _call(self, field: str, *args: int) -> Any:
        accessor = getattr(self._accessor, field)
        return _guarded(lambda: accessor(*args), self._at(field, *args))

    def scalar(self, field: str) -> int:
        """An integer or an enum."""
        return cast(int, self._call(field))

    def boolean(self, field: str) -> bool:
        """A bool. Any byte but 0 counts as true."""
        return bool(self._call(field))

    def double(self, field: str) -> float:
        """A float."""
        return float(self._call(field))

    def text(self, field: str) -> str:
        """A string; empty if it is absent."""
        raw = cast("bytes | None", self._call(field))
        if raw is None:
            return ""
        self._budget.elements(len(raw), self._at(field))
        return _guarded(lambda: raw.decode("utf-8"), self._at(field))

    def array(self, field: str) -> tuple[Any, ...]:
        """A vector of numbers; empty if it is absent."""
        length = self._length(field)
        if length == 0:
            return ()
        self._budget.elements(length, self._at(field))
        return tuple(self._call(f"{field}AsNumpy").tolist())

    def blob(self, field: str) -> memoryview:
        """A vector of bytes, not copied; empty if it is absent."""
        if self._length(field) == 0:
            return memoryview(b"")
        return memoryview(self._call(f"{field}AsNumpy")).cast("B").toreadonly()

    def child(self, field: str) -> Table | None:
        """A table; None if it is absent."""
        accessor = self._call(field)
        return None if accessor is None else Table(accessor, self._at(field), self._budget)

    def children(self, field: str) -> Iterator[Table]:
        """A vector of tables; empty if it is absent."""
        for index in range(self._length(field)):
            yield Table(self._call(field, index), self._at(field, index), self._budget)

    def union(self, field: str, members: dict[int, Any]) -> tuple[int, Table | None]:
        """A union.

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
            self.fail(f"{field} has the unknown type {tag}")
        raw = self._call(field)
        if raw is None:
            return tag, None
        accessor = generated()
        _guarded(lambda: accessor.Init(raw.Bytes, raw.Pos), self._at(field))
        return tag, Table(accessor, f"{self.path}.{generated.__name__}", self._budget)

    def _length(self, field: str) -> int:
        return cast(int, self._call(f"{field}Length"))


def _guarded(read: Callable[[], _T], path: str) -> _T:
    try:
        return read()
    except _ACCESSOR_ERRORS as error:
        fail("DC352", f"{path or 'root'}: {error}", "the file is damaged: build or fetch it again")
