# SPDX-License-Identifier: Apache-2.0
"""Our program files, as flatc reads them by our schema and by the peer's, and as the runtime runs them."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import export

from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.core_case import Case
from tests.oracle.core_dynamic import DYNAMIC
from tests.oracle.core_state import STATEFUL
from tests.oracle.core_static import STATIC
from tests.oracle.oracle import OracleProgram

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "python/delegatec/program/testdata/scale_and_count.pte"

CASES = {
    "constants": STATIC["constants"],
    "lists": STATIC["moves"],
    "recurrent": STATIC["gru"],
    "nested": STATIC["nested"],
    "state": STATEFUL["average"],
    "dynamic": DYNAMIC["classifier"],
}


@functools.cache
def _peer() -> Path:
    spec = importlib.util.find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def _json(schema: Path, pte: Path, out: Path) -> dict[str, Any]:
    """The file as JSON. The header after the first eight bytes is not in a table, so flatc skips it."""
    options = ["--json", "--strict-json", "--raw-binary", "--defaults-json"]
    command = [_peer() / "data/bin/flatc", *options, "-o", out, schema, "--", pte]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    parsed: dict[str, Any] = json.loads((out / f"{pte.stem}.json").read_text())
    return parsed


def _write(case: Case, path: Path) -> None:
    torch.manual_seed(5)
    exported = export(
        *(case.module().eval(), case.calls[0], dict(case.kwargs)), dynamic_shapes=case.dynamic_shapes
    )
    file = io.BytesIO()
    write_program(lower({"forward": exported}).emitted, file)
    path.write_bytes(file.getvalue())


def _assert_same_by_both_schemas(pte: Path, folder: Path) -> dict[str, Any]:
    # the peer's schema includes another one in the same directory
    ours = _json(ROOT / "schemas/program.fbs", pte, folder / "ours")
    theirs = _json(_peer() / "schema/program.fbs", pte, folder / "theirs")
    assert ours == theirs
    return ours


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", CASES)
def test_both_schemas_read_the_same(name: str, tmp_path: Path) -> None:
    pte = tmp_path / f"{name}.pte"
    _write(CASES[name], pte)
    (plan,) = _assert_same_by_both_schemas(pte, tmp_path)["execution_plan"]
    assert plan["name"] == "forward" and plan["values"] and plan["chains"][0]["instructions"]


def test_golden_file(tmp_path: Path) -> None:
    program = _assert_same_by_both_schemas(GOLDEN, tmp_path)
    assert len(program["segments"]) == 2
    runtime = OracleProgram(GOLDEN)
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for call in (1, 2, 3):
        # a dict's keys are in their order of insertion
        y, n = runtime.run([x])
        assert torch.equal(y, torch.cat([x * torch.tensor([1.0, 2.0, 4.0]), x], 1).view(-1))
        assert n == 7 + call + 0.5
