# SPDX-License-Identifier: Apache-2.0
"""The sizes of arenas, as `runner --memory` measures them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from delegatec.report.decoding import Size, decoded


@dataclass(frozen=True)
class Arenas:
    """The bytes that the arenas of a method must have.

    Attributes:
        method: the arena of what the runtime allocates when it loads the method.
        planned: each planned memory, from memory id 1.
        temporary: the arena that kernels and delegates allocate from while they run.
    """

    method: Size
    planned: tuple[Size, ...]
    temporary: Size


def arenas_from_json(text: str) -> dict[str, Arenas]:
    """Reads a document of the runner: method -> arenas; raises ValueError for others."""
    found: dict[str, Arenas] = decoded(dict[str, Arenas], json.loads(text))
    return found
