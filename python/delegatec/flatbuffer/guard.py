# SPDX-License-Identifier: Apache-2.0
"""Reading FlatBuffers that may be damaged.

The Python library of FlatBuffers has no verifier: its accessors trust every offset. They are called through
`Table` here, which turns each way in which an accessor can fail into one diagnostic that names the field; or
all at once by `unpack`. Both bound what can be read. What the accessors do with a bad offset:

*   scalars and vectors of scalars: struct and numpy check the bounds and raise;
*   a negative position: the library refuses it (it accepts uint32 only);
*   strings: a slice, which Python would cut short without a word: `_Bytes` refuses it.

An offset can also be wrong and still lie inside, and can be shared, so that a small file would unfold to a
huge one: a budget bounds the number of tables and of elements. The schemas have no cycles, so files have
none.
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


class Budget:
    """How much may still be read of one FlatBuffer.

    Every reference to a table takes four bytes, and a string or vector at least its elements: a file in which
    nothing is shared stays below these limits.

    Args:
        size: bytes of the FlatBuffer.
        sharing: how often each of its bytes may be read as an element.
    """

    def __init__(self, size: int, sharing: int) -> None:
        self._tables = size // 4 + 1024
        self._elements = size * sharing + 1024

    def table(self) -> None:
        """Accounts for one table.

        Raises:
            ValueError: there are too many.
        """
        self._tables -= 1
        if self._tables < 0:
            raise ValueError("it refers to more tables than it can hold")

    def elements(self, count: int) -> None:
        """Accounts for elements of a vector, or bytes of a string.

        Raises:
            ValueError: there are too many.
        """
        self._elements -= count
        if self._elements < 0:
            raise ValueError("it refers to more elements than it can hold")


class _Bytes(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes whose slices, which are strings, must lie inside of them, and are accounted for.

    An array, for a memoryview cannot be subclassed.
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
    """All of a FlatBuffer, as objects of a generated class and of those that it refers to.

    Vectors become lists of Python's numbers, but for those of bytes, which are views; what is absent is None.

    Args:
        generated: the class of the root, such as `GraphT`.
        buffer: holds one FlatBuffer.

    Raises:
        ValueError: it points out of bounds, or unfolds to more than it can hold.
    """
    checked = _checked(buffer, sharing=1)
    try:
        root = generated.InitFromPackedBuf(checked, 0)
    except _ACCESSOR_ERRORS as error:
        raise ValueError(str(error)) from error
    _convert_vectors(root, checked.budget)
    return root


def _convert_vectors(owner: Any, budget: Budget) -> None:
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
        accessor: an initialised instance of the generated class.
        path: where the table is, for messages, such as "execution_plan[0].values[3]".
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
        """The root table of a buffer that holds one FlatBuffer."""
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
        return self._guarded(lambda: raw.decode("utf-8"), self._at(field))

    def array(self, field: str) -> tuple[Any, ...]:
        """A vector of numbers; empty if it is absent."""
        length = self._length(field)
        if length == 0:
            return ()
        self._guarded(lambda: self._budget.elements(length), self._at(field))
        return tuple(self._call(f"{field}AsNumpy").tolist())

    def blob(self, field: str) -> memoryview:
        """A vector of bytes, not copied; empty if it is absent."""
        if self._length(field) == 0:
            return memoryview(b"")
        return memoryview(self._call(f"{field}AsNumpy")).cast("B").toreadonly()

    def child(self, field: str) -> Table | None:
        """A table; None if it is absent."""
        accessor = self._call(field)
        return None if accessor is None else self._child(accessor, self._at(field))

    def children(self, field: str) -> Iterator[Table]:
        """A vector of tables; empty if it is absent."""
        for index in range(self._length(field)):
            yield self._child(self._call(field, index), self._at(field, index))

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
        self._guarded(lambda: accessor.Init(raw.Bytes, raw.Pos), self._at(field))
        return tag, self._child(accessor, f"{self.path}.{generated.__name__}")

    def _length(self, field: str) -> int:
        return cast(int, self._call(f"{field}Length"))


def _guarded(read: Callable[[], _T], path: str, code: str) -> _T:
    try:
        return read()
    except _ACCESSOR_ERRORS as error:
        fail(code, f"{path or 'root'}: {error}", "the file is damaged: build or fetch it again")
