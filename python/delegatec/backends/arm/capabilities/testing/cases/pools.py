# SPDX-License-Identifier: Apache-2.0
"""Pools, products and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.capabilities.testing import LARGE, LIMIT, NO, YES, Case, shaped


def pools() -> Iterator[Case]:
    """Yields cases of pools."""

    def pool(
        name: str,
        verdicts: tuple[str, str],
        x: tuple[int, ...] = (1, 8, 8, 16),
        kernel: tuple[int, int] = (2, 2),
        stride: tuple[int, int] = (1, 1),
        pad: tuple[int, ...] = (0, 0, 0, 0),
        dtype: str = "INT8",
    ) -> Case:
        sizes = [(x[i + 1] + pad[2 * i] + pad[2 * i + 1] - kernel[i]) // stride[i] + 1 for i in range(2)]
        attributes: dict[str, Any] = {"kernel": list(kernel), "stride": list(stride), "pad": list(pad)}
        average = name == "AVG_POOL2D"
        zeros = (f"=0:{dtype}",) * 2 if average else ()
        attributes |= {"acc_type": DType.INT32} if average else {"nan_mode": 1}
        return Case(
            verdicts, name, (shaped(dtype, x), *zeros), shaped(dtype, (x[0], *sizes, x[3])), attributes
        )

    for name, batch in (("AVG_POOL2D", LIMIT), ("MAX_POOL2D", YES)):
        yield pool(name, YES)
        yield pool(name, YES, dtype="INT16", stride=(2, 2))
        yield pool(name, batch, x=(2, 8, 8, 16))
        yield pool(name, YES, x=(1, 16, 16, 4), stride=(3, 3), kernel=(1, 1))
        yield pool(name, LIMIT, x=(1, 17, 17, 4), stride=(4, 4), kernel=(1, 1))
        yield pool(name, YES, x=(1, 257, 257, 1), kernel=(256, 256))
        yield pool(name, LIMIT, x=(1, 258, 2, 1), kernel=(257, 1))
        yield pool(name, LIMIT, x=(1, 257, 258, 1), kernel=(256, 257))
        yield pool(name, LIMIT, x=(1, 65537, 1, 2), kernel=(1, 1))
        yield pool(name, NO, x=(1, 2, 2, 65537))
    yield pool("AVG_POOL2D", YES, x=(1, 10, 10, 4), kernel=(8, 8), pad=(1, 0, 0, 0))
    yield pool("AVG_POOL2D", LARGE, x=(1, 10, 10, 4), kernel=(9, 9), pad=(1, 0, 0, 0))
    yield pool("AVG_POOL2D", LARGE, x=(1, 10, 10, 4), kernel=(1, 9), pad=(0, 0, 0, 1))
    yield pool("AVG_POOL2D", YES, x=(1, 10, 10, 4), kernel=(9, 9))
    yield pool("MAX_POOL2D", YES, x=(1, 10, 10, 4), kernel=(9, 9), pad=(1, 0, 0, 0))


def products() -> Iterator[Case]:
    """Yields cases of products."""

    def product(
        verdicts: tuple[str, str], n: int, h: int, c: int, w: int, dtype: str = "INT8", y: str = ""
    ) -> Case:
        operands = (shaped(dtype, (n, h, c)), shaped(y + dtype, (n, c, w)), f"=0:{dtype}", f"=0:{dtype}")
        return Case(
            verdicts, "MATMUL", operands, shaped("INT32" if dtype == "INT8" else "INT48", (n, h, w)), {}
        )

    yield product(YES, 1, 4, 8, 6)
    yield product(YES, 5, 4, 8, 6, y="*")
    yield product(YES, 4096, 2, 3, 2)
    yield product(LARGE, 1, 4, 8, 6, "INT16")
    yield product(YES, 1, 2, 65536, 2)
    yield product(LARGE, 1, 2, 65537, 2)
    yield product(YES, 1, 2, 3, 65536)
    yield product(LARGE, 1, 2, 3, 65537)


def resizes() -> Iterator[Case]:
    """Yields cases of resizes."""

    def resize(
        verdicts: tuple[str, str],
        scale: tuple[int, int, int, int],
        offset: tuple[int, int],
        border: tuple[int, int],
        x: tuple[int, ...] = (1, 4, 5, 6),
        mode: int = 1,
        dtype: str = "INT8",
    ) -> Case:
        sizes = [
            ((x[i + 1] - 1) * scale[2 * i] - offset[i] + border[i]) // scale[2 * i + 1] + 1 for i in range(2)
        ]
        operands = (shaped(dtype, x), *(f"#{','.join(map(str, each))}" for each in (scale, offset, border)))
        result = shaped("INT32" if mode == 2 else dtype, (x[0], *sizes, x[3]))
        return Case(verdicts, "RESIZE", operands, result, {"mode": mode})

    for factor, verdicts in ((2, YES), (3, LARGE), (4, YES), (8, YES), (16, LARGE)):
        center = (1 - factor,) * 2, (factor - 1,) * 2
        yield resize(verdicts, (2 * factor, 2) * 2, *center)
        yield resize(verdicts, (factor, 1) * 2, (0, 0), (0, 0))
        yield resize(LARGE, (2 * factor, 2) * 2, *center, mode=2)
    yield resize(YES, (4, 2, 8, 2), (-1, -3), (1, 3))
    yield resize(YES, (1, 1, 1, 1), (0, 0), (0, 0))
    yield resize(YES, (4, 2, 4, 2), (-1, -1), (1, 1), dtype="INT16")
    yield resize(LARGE, (4, 2, 4, 2), (-1, -1), (1, 1), x=(2, 4, 5, 6))
    yield resize(LARGE, (4, 2, 2, 2), (-1, 0), (1, 0))
    yield resize(LARGE, (1, 2, 1, 2), (0, 0), (-1, 0), x=(1, 4, 5, 6))
    yield resize(LARGE, (2, 1, 2, 1), (0, 0), (1, 1))
    yield resize(LIMIT, (2, 1, 2, 1), (-1, -1), (-1, -1))
