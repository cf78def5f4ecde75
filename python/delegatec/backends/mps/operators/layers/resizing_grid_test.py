# SPDX-License-Identifier: Apache-2.0
"""Resizing, against eager mode."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import floats
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.operators.grid import PRECISIONS, run_case

INTEGERS = MPS.preserved_operators()
SIZES: dict[int, tuple[Any, ...]] = {
    1: (9, 5, 18, 1.7, 0.6),
    2: ((5, 11), (14, 24), (1, 1), 2.0, (1.7, 0.6)),
    3: ((2, 9, 7), (1.5, 2.0, 0.7)),
}
INPUTS = {1: floats(2, 3, 9), 2: floats(2, 3, 7, 8), 3: floats(2, 3, 4, 5, 6)}
MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}


def check(x: torch.Tensor, precision: str, expected: str = "", **options: Any) -> None:
    if isinstance(options.get("scale_factor"), tuple):
        options["scale_factor"] = list(options["scale_factor"])

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **options) * 2

    run_case(
        function,
        (x,),
        expected,
        precision,
        preserve=INTEGERS,
        # eager mode does not round weights to float16
        rtol=1e-5 if precision == "fp32" else 8e-3,
        # it has no antialiasing in float16
        reference=lambda x: function(x.float()),
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("rank", "mode"), [(rank, mode) for rank in MODES for mode in MODES[rank]])
def test_resized(rank: int, mode: str, precision: str) -> None:
    for size in SIZES[rank][: 2 if precision == "fp16" else None]:
        whole = isinstance(size, int) or (isinstance(size, tuple) and isinstance(size[0], int))
        options = {"size" if whole else "scale_factor": size, "mode": mode}
        check(INPUTS[rank], precision, **options)
        if "linear" in mode or "cubic" in mode:
            check(INPUTS[rank], precision, align_corners=True, **options)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased(mode: str, precision: str) -> None:
    for size in ((7, 8), (3, 5), (14, 3), (1, 1), (2, 31)):
        check(floats(2, 3, 13, 17), precision, size=size, mode=mode, antialias=True)
    check(floats(2, 3, 13, 17), precision, scale_factor=0.3, mode=mode, antialias=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scale_factor": 2}, "View Expand View Mul"),
        ({"size": (14, 4)}, "Slice View Expand View Mul"),
        ({"size": (3, 4)}, "Slice Slice Mul"),
        ({"size": (7, 5)}, "IndexSelect Mul"),
        ({"size": (7, 8), "mode": "bilinear"}, "Mul"),
        ({"size": (14, 8), "mode": "bilinear"}, "IndexSelect Mul IndexSelect Mul Add Mul"),
    ],
)
def test_operations(options: dict[str, Any], expected: str) -> None:
    check(INPUTS[2], "fp32", expected, **options)


@pytest.mark.parametrize("antialias", [False, True])
def test_infinity_stays_where_it_is(antialias: bool) -> None:
    x = floats(1, 1, 9, 9)
    x[0, 0, 8, 8] = math.inf
    check(x, "fp32", size=(4, 4), mode="bilinear", antialias=antialias)


@pytest.mark.parametrize(("mode", "antialias"), [("bilinear", False), ("bilinear", True), ("bicubic", False)])
def test_special_values(mode: str, antialias: bool) -> None:
    for size in ((5, 11), (1, 1), (3, 5)):

        def function(x: torch.Tensor, size: Any = size) -> torch.Tensor:
            return F.interpolate(x, size, mode=mode, antialias=antialias)

        run_case(function, (INPUTS[2],), preserve=INTEGERS, special=1)
