# SPDX-License-Identifier: Apache-2.0
"""Values of a run, by their ids in the blob."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

import torch


class Values:
    """Tensors by id; None is the runtime's null.

    Args:
        count: number of ids.
        reject: raises an error with a message if the runtime would abort.
        read: ids that an operation or output reads; all by default.

    Attributes:
        types: dtype and shape of the last value of each id.
    """

    def __init__(
        self, count: int, reject: Callable[[str], NoReturn], read: Collection[int] | None = None
    ) -> None:
        self.types: list[tuple[torch.dtype, list[int]] | None] = [None] * count
        self._values: list[torch.Tensor | None] = [None] * count
        self._reject = reject
        self._read = read

    def __contains__(self, id: int) -> bool:
        return self.is_id(id) and self._values[id] is not None

    def __getitem__(self, id: int) -> torch.Tensor:
        value = self._values[id] if self.is_id(id) else None
        if value is None:
            self._reject(f"value {id} is used before its definition")
        return value

    def __setitem__(self, id: int, value: torch.Tensor) -> None:
        self._check_id(id)
        self._values[id] = value
        self.types[id] = (value.dtype, list(value.shape))

    def is_id(self, id: int) -> bool:
        """Returns whether an id is in range."""
        return 0 <= id < len(self._values)

    def is_used(self, id: int) -> bool:
        """Returns whether a value is read."""
        return self._read is None or id in self._read

    def clear(self, id: int) -> None:
        """Sets an id to null."""
        self._check_id(id)
        self._values[id] = None
        self.types[id] = None

    def forget(self, ids: Iterable[int]) -> None:
        """Frees values after their last use."""
        for id in ids:
            self._values[id] = None

    def _check_id(self, id: int) -> None:
        if not self.is_id(id):
            self._reject(f"a result has the id {id}, but there are {len(self._values)} values")
