# SPDX-License-Identifier: Apache-2.0
"""Files of the compiler's wheels that models may use are there, although `sites.bzl` removes others."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A decorated method imports torch.compile's backend, even if it is only exported.
COMPILED = """
import torch

class Rectified(torch.nn.Module):
    @torch.compile
    def rectify(self, value):
        return value.relu()

    def forward(self, value):
        return self.rectify(value)

torch.export.export(Rectified(), (torch.rand(3),))
"""
# As functions that sympy generates do; it imports f2py, too.
STAR = "from numpy import *; f2py"
LAMBDIFIED = """
import sympy

x = sympy.Symbol("x")
assert sympy.lambdify(x, sympy.cos(x), "numpy")(0.0) == 1.0
sympy.simplify(sympy.sin(x) ** 2 + sympy.cos(x) ** 2)
"""
IMPORTED = """
import numpy.ma, numpy.polynomial, numpy.random, numpy.testing
import sympy.parsing.sympy_parser, sympy.physics.wigner
import torch.distributed, torch.onnx, torch.testing, torch.utils.checkpoint, torch.utils.data
"""


@pytest.mark.parametrize(
    "code", [COMPILED, IMPORTED, LAMBDIFIED, STAR], ids=["compiled", "imported", "sympy", "star"]
)
def test_models_can_use(code: str) -> None:
    command = [sys.executable, "-s", "-P", "-B", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
