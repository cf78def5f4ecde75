# SPDX-License-Identifier: Apache-2.0
"""The built examples in the C++ runtime, with arenas of exactly the sizes in their files, and with less."""

from __future__ import annotations

from pathlib import Path

import pytest
from runfiles import Runfiles

from delegatec.backends import builtin_backends
from delegatec.program.reader import read_program
from delegatec.report.arenas import arenas_of
from executorch_runner.testing import insufficient_arenas, measured_arenas

PROGRAMS = (
    "chat/austen_portable",
    "chat/austen_xnnpack",
    "digits/digits_batch_portable",
    "digits/digits_batch_xnnpack",
    "digits/digits_int8_portable",
    "digits/digits_int8_xnnpack",
    "digits/digits_portable",
    "digits/digits_xnnpack",
    "keywords/keywords_int8_portable",
    "keywords/keywords_portable",
    "minilm/minilm_8da8w_xnnpack",
    "minilm/minilm_portable",
    "minilm/minilm_xnnpack",
    "minilm/minilm_xnnpack_fp16",
    "mobilenet_v2/mobilenet_v2_int8_xnnpack",
    "mobilenet_v2/mobilenet_v2_xnnpack",
    "quantized/llama_8da4w_portable",
    "quantized/llama_8da4w_xnnpack",
    "quantized/llama_float_portable",
    "quantized/mobilenet_v2_int8_portable",
)


def _located(name: str) -> Path:
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(f"rules_delegate/examples/{name}.pte")
    assert location is not None
    return Path(location)


@pytest.mark.parametrize("name", PROGRAMS)
def test_arenas_are_exact(name: str) -> None:
    program = read_program(_located(name))
    for method, arenas in arenas_of(program, builtin_backends(), has_weights=False).items():
        assert (arenas.method.besides, arenas.temporary.besides) == ((), ())
        sizes = {
            "method": arenas.method.bytes,
            "temporary": arenas.temporary.bytes,
            "planned": arenas.planned,
        }
        print(name, method, sizes)
        problems = insufficient_arenas(_located(name), method, sizes)
        assert "method" in problems
        assert [kind for kind, problem in problems.items() if not problem] == []


def test_measured_arenas(tmp_path: Path) -> None:
    """`runner --memory` finds the same, also for a runtime whose structures are unknown."""
    pte = _located("digits/digits_portable")
    (measured,) = measured_arenas(pte, tmp_path).values()
    (arenas,) = arenas_of(read_program(pte), (), has_weights=False).values()
    assert measured == {
        "method": arenas.method.bytes,
        "temporary": arenas.temporary.bytes,
        "planned": [*arenas.planned],
    }
