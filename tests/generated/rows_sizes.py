# SPDX-License-Identifier: Apache-2.0
"""Rows that Python computes by sizes: if these are dynamic, torch.export guards the branch that it took."""

from __future__ import annotations

from typing import Final

SIZES: Final = (
    "F.pad({f@1+}, (0, (-{f}.shape[-1]) % {int:r(2, 5)}))",
    "F.pad({f@2+}, (0, 0, 0, (-{f}.shape[-2]) % {int:r(2, 5)}))",
    "({n@1+} * 2 if {n}.shape[0] % {int:r(2, 4)} == {int2:r(0, 2)} else {n} + 1)",
    "({n@1+} * 2 if {n}.shape[-1] > {int:r(1, 7)} else {n} + 1)",
    "({n@1+}[:{int:r(1, 4)}] if {n}.shape[0] > {int} else -{n})",
    "({n@2+}.flip(0) if {n}.shape[0] < {n}.shape[1] else {n} - 1)",
    "({n@2+} + 1 if {n}.shape[0] == {n}.shape[-1] else {n} * 0.5)",
    "({n@1+}.reshape(2, -1) if {n}.numel() % 2 == 0 else {n}.reshape(1, -1))",
    "{n@1+}[:{n}.shape[0] // 2]",
    "{n@1+}[{n}.shape[0] // 2:]",
    "{n@1+}[::{int:r(2, 4)}]",
    "{n@1+}[-(-{n}.shape[0] // 2):].sum(0)",
    "{n@1+} * {n}.shape[0]",
    "{f@1+} / {f}.shape[-1] ** 0.5",
    "torch.zeros({n@1+}.shape[0] + 1, 2) + {num}",
    "torch.cat([{n1~} * 1 for _ in range({int:r(1, 3)})] + [{n@1+}])",
    "torch.stack([{n@1+}[i % {n}.shape[0]] for i in range({int:r(1, 4)})])",
    "{n@1+}.repeat_interleave(2, 0)[:{n}.shape[0]]",
    "{n@1+}.new_ones({n}.shape[0], max({n}.shape[-1], {int:r(1, 5)}))",
    "F.adaptive_avg_pool1d({f@2-3}, min({f}.shape[-1], {int:r(1, 4)}))",
)
