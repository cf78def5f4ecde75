# SPDX-License-Identifier: Apache-2.0
"""Values of a run, by the ids that a blob gives them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

import torch


class Values:
    """Tensors by id. Some may have none: the runtime's nil.

    Args:
        count: how many ids there are.
        refuse: raises, with a message, where the runtime would stop.
        read: ids that something reads; all of them, if not given.

    Attributes:
        types: dtype and shape of what each id was given last.
    """

    def __init__(
        self, count: int, refuse: Callable[[str], NoReturn], read: Collection[int] | None = None
    ) -> None:
        self.types: list[tuple[torch.dtype, list[int]] | None] = [None] * count
        self._values: list[torch.Tensor | None] = [None] * count
        self._refuse = refuse
        self._read = read

    def __contains__(self, id: int) -> bool:
        return self.is_id(id) and self._values[id] is not None

    def __getitem__(self, id: int) -> torch.Tensor:
        value = self._values[id] if self.is_id(id) else None
        if value is None:
            self._refuse(f"value {id} is read before anything gives it one")
        return value

    def __setitem__(self, id: int, value: torch.Tensor) -> None:
        self._check_id(id)
        self._values[id] = value
        self.types[id] = (value.dtype, list(value.shape))

    def is_id(self, id: int) -> bool:
        """Whether the graph has a value of an id, made yet or not."""
        return 0 <= id < len(self._values)

    def is_read(self, id: int) -> bool:
        """Whether something reads a value."""
        return self._read is None or id in self._read

    def clear(self, id: int) -> None:
        """Leaves an id without a value."""
        self._check_id(id)
        self._values[id] = None
        self.types[id] = None

    def forget(self, ids: Iterable[int]) -> None:
        """Frees values that are not read any more."""
        for id in ids:
            self._values[id] = None

    def _check_id(self, id: int) -> None:
        if not self.is_id(id):
            self._refuse(f"a result has the id {id}, and there are {len(self._values)} values")
