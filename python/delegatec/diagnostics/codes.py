# SPDX-License-Identifier: Apache-2.0
"""The codes of all diagnostics. A code keeps its meaning for ever; a retired one is not used again.

Blocks: DC0xx environment and command line, DC1xx frontend, DC2xx edge program, DC3xx .pte program,
DC4xx delegation and backends, DC5xx verification.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, str]] = {
    "DC201": "An operator has no kernel in the runtime, and no decomposition to operators that have one.",
    "DC202": "A kernel of the runtime does not take a value of this dtype.",
    "DC203": "A dimension is dynamic without an upper bound.",
    "DC204": "An operator mutates its input in a way that has no functional form.",
    "DC205": "The program has a construct that cannot be lowered yet.",
    "DC301": "A value has a type that a .pte program cannot hold.",
    "DC302": "An argument of an operator has a form that its kernel does not take.",
    "DC401": "No backend has this name or id.",
    "DC402": "A backend has no such option, or the option cannot have this value.",
    "DC403": "A backend plug-in is missing, or what it names is not a backend.",
    "DC404": "A partitioner edited the program, or made groups that cannot become delegates.",
    "DC405": "A program was to be lowered whole, and has a node that the backend does not take.",
    "DC406": "A weight is beyond the range of the dtype that it is to be converted to.",
    "DC407": "A delegate's blob is damaged or not of the format.",
}
