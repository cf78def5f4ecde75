# SPDX-License-Identifier: Apache-2.0
"""The built examples in the C++ runtime, with arenas of exactly the measured sizes, and with less."""

from __future__ import annotations

from pathlib import Path

import pytest
from runfiles import Runfiles

from executorch_runner.testing import insufficient_arenas, measured_arenas

PROGRAMS = (
    "chat/austen_xnnpack",
    "digits/digits_batch_portable",
    "digits/digits_batch_xnnpack",
    "digits/digits_int8_portable",
    "digits/digits_int8_xnnpack",
    "digits/digits_portable",
    "digits/digits_xnnpack",
    "keywords/keywords_int8_portable",
    "keywords/keywords_portable",
    "minilm/minilm_portable",
    "minilm/minilm_xnnpack",
    "mobilenet_v2/mobilenet_v2_int8_xnnpack",
    "mobilenet_v2/mobilenet_v2_xnnpack",
    "quantized/llama_8da4w_xnnpack",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_arenas_are_exact(name: str, tmp_path: Path) -> None:
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(f"rules_delegate/examples/{name}.pte")
    assert location is not None
    for method, sizes in measured_arenas(Path(location), tmp_path).items():
        print(name, method, sizes)
        problems = insufficient_arenas(Path(location), method, sizes)
        assert "method" in problems
        assert [kind for kind, problem in problems.items() if not problem] == []
