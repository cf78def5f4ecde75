# SPDX-License-Identifier: Apache-2.0
"""Rows of loops over the rows of a tensor: recurrent layers, and scans with layers in their bodies."""

from __future__ import annotations

from typing import Final

from tests.generated.rows_models import RECURRENT
from tests.generated.rows_state import CONTROL_FLOW

_SQUARE: Final = "{W:(x.shape[-1], x.shape[-1])}"

LOOPS: Final = (
    *RECURRENT,
    *(row for row in CONTROL_FLOW if row.startswith("scan(")),
    f"scan(lambda c, a: (torch.tanh(c @ {_SQUARE} + a), (c * a).clone()), {{f@3}}[0] * 0, {{f}})"
    "[{int:r(0, 2)}]",
    f"scan(lambda c, a: (F.linear(a, {_SQUARE}) + c * 0.5, {{body:a}}), {{f@3}}[0] * 0, {{f}})"
    "[{int:r(0, 2)}]",
    "scan(lambda c, a: ((torch.sigmoid(c[0] + a), c[1] + 1), c[0] * a), ({f@2+}[0] * 0, torch.zeros(())), "
    "{f})[1]",
    "scan(lambda c, a: ((c[1] + a, c[0].clone()), c[0] - a), ({f@2+}[0] * 0, {f}[0] + 1), {f})[1]",
    "scan(lambda c, a: (a.clone(), torch.relu(c) + a), {f@2+}[0], {f}.flip(0))[{int:r(0, 2)}].abs()",
    "torch.stack(scan(lambda c, a: (torch.sin(c + a), c * 2), {f@2+}[0] * 0, {f}.flip(0))[1].flip(0)"
    ".unbind(0), 1)",
)
