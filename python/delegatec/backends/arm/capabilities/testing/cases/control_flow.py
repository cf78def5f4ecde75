# SPDX-License-Identifier: Apache-2.0
"""Control flow."""

from __future__ import annotations

from collections.abc import Iterator

from delegatec.backends.arm.capabilities.testing import LARGE, Case, shaped


def control_flow() -> Iterator[Case]:
    """Yields cases of control flow; the bodies return their operands."""
    for dtype in ("INT8", "INT32", "BOOL"):
        x = shaped(dtype, (2, 3))
        yield Case(LARGE, "COND_IF", ("BOOL[1]", x), x, {"then_graph": "first", "else_graph": "second"})
    yield Case(LARGE, "COND_IF", ("BOOL[]", x), x, {"then_graph": "first", "else_graph": "second"})
    yield Case(LARGE, "WHILE_LOOP", ("BOOL[1]",), "BOOL[1]", {"cond_graph": "first", "body_graph": "second"})
