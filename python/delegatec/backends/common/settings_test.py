# SPDX-License-Identifier: Apache-2.0
"""Options become compile specs, and these become settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import pytest

from delegatec.backends.common.settings import OVERFLOW, PRECISION, Overflow, Precision, SettingsCodec
from delegatec.delegation import CompileSpec, resolve_options
from delegatec.diagnostics import DelegatecError


@dataclass(frozen=True)
class Settings:
    """Two settings; the first has another key than its option."""

    precision: Precision = Precision.FP32
    overflow: Overflow = Overflow.ERROR


BYTES: dict[Enum, bytes] = {Precision.FP32: b"\0", Precision.FP16: b"\1"}
CODEC = SettingsCodec(
    "Some", Settings(), {"precision": replace(PRECISION, key="half", values=BYTES), "overflow": OVERFLOW}
)


def encoded(**options: str) -> list[CompileSpec]:
    return CODEC.encode(resolve_options("some", CODEC.options, options))


def test_defaults_are_stored_under_foreign_keys_only() -> None:
    assert encoded() == [CompileSpec("half", b"\0")]
    assert encoded(precision="fp16", fp16_overflow="saturate") == [
        CompileSpec("half", b"\1"),
        CompileSpec("fp16_overflow", b"saturate"),
    ]


@pytest.mark.parametrize(
    ("precision", "overflow"),
    [
        (Precision.FP32, Overflow.ERROR),
        (Precision.FP16, Overflow.ERROR),
        (Precision.FP16, Overflow.SATURATE),
    ],
)
def test_settings_are_decoded(precision: Precision, overflow: Overflow) -> None:
    specs = encoded(precision=precision.value, fp16_overflow=overflow.value)
    assert CODEC.decode(specs) == Settings(precision, overflow)


def test_fp32_has_no_overflow() -> None:
    with pytest.raises(DelegatecError) as error:
        encoded(fp16_overflow="saturate")
    (found,) = error.value.diagnostics
    assert (found.code, found.message, found.expected) == (
        "DC423",
        "option 'fp16_overflow' of backend some has no effect with precision 'fp32'",
        "precision 'fp16', or fp16_overflow 'error'",
    )


def test_all_faults_are_named() -> None:
    with pytest.raises(DelegatecError) as error:
        CODEC.decode([CompileSpec("half", b"fp16"), CompileSpec("precision", b"fp16")])
    assert [(each.code, each.message, each.expected) for each in error.value.diagnostics] == [
        ("DC402", "invalid value of compile spec 'half' of Some: b'fp16'", "b'\\x00' or b'\\x01'"),
        ("DC402", "unknown compile spec of Some: 'precision'", "half, fp16_overflow"),
    ]
