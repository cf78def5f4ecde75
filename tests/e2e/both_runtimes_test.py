# SPDX-License-Identifier: Apache-2.0
"""The built examples in ExecuTorch 1.4.1 and, by the C++ runner, in 1.5.1, and the table of SUPPORT.md.

The runtimes compute XNNPACK's delegates to the same bits. Their kernels differ in products of matrices and in
convolutions alone, which sum in another order; where a value is quantized afterwards, its neighbor may be the
result.
"""

from __future__ import annotations

import re

import pytest
import torch
from built import built

from delegatec.program.reader import read_program
from delegatec.program.reader.model import Tensor
from executorch_runner import RUNTIME
from tests.oracle.oracle import OracleProgram

# A row: program, limit of the difference of an output between the two.
_ROW = re.compile(r"^\| `(\w+/\w+)` \| runs \| runs \| (\S+) \|$", re.MULTILINE)
ROWS = _ROW.findall(built("SUPPORT.md").read_text(encoding="utf-8"))


def _input(spec: Tensor, position: int, generator: torch.Generator) -> torch.Tensor:
    """Returns noise, tokens as the first input, or ones as a mask or position."""
    dtype: torch.dtype = getattr(torch, spec.kind.name)
    if dtype.is_floating_point:
        return torch.randn(spec.sizes, generator=generator).to(dtype)
    low, high = (-128, 128) if dtype == torch.int8 else (5, 100) if position == 0 else (1, 2)
    return torch.randint(low, high, spec.sizes, generator=generator, dtype=dtype)


def test_the_table_has_every_kind() -> None:
    names = [name for name, _ in ROWS]
    assert len(names) == len(set(names)) >= 12
    assert {name.rpartition("_")[2] for name in names} >= {"portable", "xnnpack", "fp16"}


@pytest.mark.parametrize(("name", "limit"), ROWS)
def test_both_runtimes(name: str, limit: str) -> None:
    path = built(f"examples/{name}.pte")
    method = read_program(path).method("forward")
    specs = [method.values[index] for index in method.inputs]
    generator = torch.Generator().manual_seed(0)
    inputs = [
        _input(spec, position, generator) for position, spec in enumerate(specs) if isinstance(spec, Tensor)
    ]
    assert len(inputs) == len(specs)
    earlier = OracleProgram(path).run(inputs)
    later = RUNTIME.load(str(path), None, False).run("forward", inputs)
    worst = max(float((a.double() - b.double()).abs().max()) for a, b in zip(earlier, later, strict=True))
    print(f"{name}: {worst:.2g} of {max(float(each.double().abs().max()) for each in earlier):.2g}")
    assert worst <= float(limit)
    assert ("xnnpack" in name) == (limit == "0")
