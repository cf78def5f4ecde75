# SPDX-License-Identifier: Apache-2.0
"""Texts of TOSA specifications."""

from __future__ import annotations

import pytest

from delegatec.backends.arm.specification import TosaSpecification

parse = TosaSpecification.parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("TOSA-1.0+FP", "TOSA-1.0+FP"),
        ("tosa-1.0.0+int+INT16+Int4", "TOSA-1.0+INT+int16+int4"),
        ("TOSA-1.1+FP+INT+bf16+cf", "TOSA-1.1+INT+FP+bf16+cf"),
        ("TOSA-1.0+INT+U55", "TOSA-1.0+INT+u55"),
        ("TOSA-1.1+FP+mxfp", "TOSA-1.1+FP+mxfp"),
        ("TOSA-1.0+INT+8k", "TOSA-1.0+INT"),
    ],
)
def test_any_case_and_order(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not of the form"),
        ("1.0+FP", "not of the form"),
        ("TOSA-1.0", "no profile, INT or FP"),
        ("TOSA-0.80.0+BI", r"of version 0.80; write TOSA-1.0\+INT for"),
        ("tosa-0.80+mi+u55", r"write TOSA-1.0\+INT\+FP\+u55 for"),
        ("TOSA-1.0+MI", r"the profile MI is INT\+FP since version 1.0$"),
        ("TOSA-1.0+INT+FP+u55", "u55 has no floating point"),
        ("TOSA-2.0+FP", "version 2.0 is not 1.0 or 1.1"),
        ("TOSA-1.0+FP+int17", "unknown extension 'int17'"),
        ("TOSA-1.0+FP+int16", "int16 extends the profile INT, which is absent"),
        ("TOSA-1.0+FP+mxfp", "the extension mxfp needs version 1.1"),
        ("TOSA-1.0+INT+u55+u85", "for u55 and u85 at once"),
    ],
)
def test_problems(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse(text)


def test_all_problems_at_once() -> None:
    with pytest.raises(ValueError, match=r"'a'.*'b'.*bf16 extends"):
        parse("TOSA-1.0+INT+b+a+bf16")
