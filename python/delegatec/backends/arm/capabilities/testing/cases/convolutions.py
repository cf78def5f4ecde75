# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.capabilities.testing import LARGE, LIMIT, NO, YES, Case, shaped


def convolutions() -> Iterator[Case]:
    """Yields cases of convolutions."""

    def convolution(
        verdicts: tuple[str, str],
        x: tuple[int, ...] = (1, 8, 8, 16),
        kernel: tuple[int, ...] = (3, 3),
        features: int = 4,
        name: str = "CONV2D",
        dtype: str = "INT8",
        weight: str = "*INT8",
        bias: str = "*",
        stride: tuple[int, ...] = (),
        pad: tuple[int, ...] = (),
        dilation: tuple[int, ...] = (),
        rescaled: str = "INT8",
    ) -> Case:
        rank, wide = len(kernel), dtype == "INT16"
        accumulator = "INT48" if wide else "INT32"
        stride, pad, dilation = stride or (1,) * rank, pad or (0,) * 2 * rank, dilation or (1,) * rank
        if name == "TRANSPOSE_CONV2D":
            sizes = [(x[i + 1] - 1) * stride[i] + kernel[i] for i in range(rank)]
            attributes: dict[str, Any] = {"out_pad": list(pad)}
        else:
            reach = [(kernel[i] - 1) * dilation[i] for i in range(rank)]
            sizes = [
                (x[i + 1] + pad[2 * i] + pad[2 * i + 1] - reach[i] - 1) // stride[i] + 1 for i in range(rank)
            ]
            attributes = {"pad": list(pad), "dilation": list(dilation)}
        depthwise = name == "DEPTHWISE_CONV2D"
        shape = (*kernel, x[-1], features) if depthwise else (features, *kernel, x[-1])
        results = x[-1] * features if depthwise else features
        operands = (
            shaped(dtype, x),
            shaped(weight, shape),
            shaped(bias + accumulator, [results]),
            f"=0:{dtype}",
            "=0:INT8" if "INT8" in weight else "*INT4[1]",
        )
        attributes |= {"stride": list(stride), "local_bound": False, "acc_type": getattr(DType, accumulator)}
        return Case(
            verdicts, name, operands, shaped(accumulator, (x[0], *sizes, results)), attributes, rescaled
        )

    yield convolution(YES)
    yield convolution(YES, rescaled="")
    yield convolution(YES, x=(3, 8, 8, 16), weight="*INT4")
    for wide in ("INT8", "INT16", "INT32"):
        yield convolution(YES, dtype="INT16", rescaled=wide)
    yield convolution(LARGE, dtype="INT16", rescaled="")
    yield convolution(LARGE, weight="INT8")
    yield convolution(LARGE, bias="")
    for name, beyond in (("CONV2D", YES), ("DEPTHWISE_CONV2D", LARGE)):
        yield convolution(YES, x=(1, 19, 19, 8), name=name, stride=(3, 3), pad=(0, 2, 0, 2))
        yield convolution(beyond, x=(1, 19, 19, 8), name=name, stride=(4, 4))
        yield convolution(beyond, x=(1, 19, 19, 8), name=name, stride=(1, 4))
        for kernel, verdicts in (((64, 64), YES), ((65, 1), LIMIT), ((1, 4096), YES), ((1, 4097), LIMIT)):
            x = (1, kernel[0] + 1, kernel[1] + 1, 1)
            yield convolution(verdicts, x=x, kernel=kernel, features=2 if name == "CONV2D" else 1, name=name)
    yield convolution(YES, x=(1, 1, 1, 65536), kernel=(1, 1), features=1)
    yield convolution(NO, x=(1, 1, 1, 65537), kernel=(1, 1), features=1)
    yield convolution(LIMIT, x=(1, 2, 2, 20000), kernel=(2, 2), features=1)
    yield convolution(YES, x=(1, 1, 65537, 2), kernel=(1, 1), features=1)
    depthwise = "DEPTHWISE_CONV2D"
    yield convolution(YES, name=depthwise, features=2)
    yield convolution(YES, name=depthwise, features=1, dtype="INT16", rescaled="INT16")
    yield convolution(LARGE, name=depthwise, features=1, weight="INT8")
    yield convolution(NO, x=(1, 4, 4, 65537), kernel=(1, 1), features=1, name=depthwise)
    for depth, verdicts in ((1, YES), (2, LARGE)):
        yield convolution(verdicts, x=(2, 4, 8, 8, 4), kernel=(depth, 3, 3), name="CONV3D")
    yield convolution(YES, x=(1, 9, 9, 9, 4), kernel=(1, 1, 1), name="CONV3D", stride=(4, 1, 1))
    yield convolution(YES, x=(1, 9, 9, 9, 4), kernel=(1, 1, 1), name="CONV3D", stride=(1, 4, 1))
    yield convolution(LARGE, x=(1, 18, 18, 8), stride=(4, 4), pad=(0, 1, 0, 1))
    yield convolution(LARGE, x=(1, 9, 9, 8), stride=(4, 4), dilation=(2, 2))
    yield convolution(YES, x=(3, 18, 18, 8), stride=(5, 1))
    yield convolution(YES, x=(1, 19, 19, 8), stride=(16, 16), dtype="INT16", rescaled="INT16")
    yield convolution(LIMIT, x=(2, 1, 8193, 1), kernel=(1, 1), stride=(1, 4))
    yield convolution(
        YES, x=(1, 4, 8, 8, 4), kernel=(1, 3, 3), name="CONV3D", dtype="INT16", rescaled="INT16"
    )
    yield convolution(("no", "limit"), x=(1, 4, 8, 8, 4), kernel=(1, 3, 3), name="CONV3D", weight="INT8")
    up = "TRANSPOSE_CONV2D"
    for stride, verdicts in (((1, 1), YES), ((2, 2), YES), ((1, 2), LARGE), ((2, 1), LARGE), ((3, 3), LARGE)):
        yield convolution(verdicts, x=(2, 5, 5, 4), name=up, stride=stride)
    yield convolution(YES, x=(1, 1, 5, 4), kernel=(1, 3), name=up, stride=(1, 2))
    yield convolution(YES, x=(1, 5, 1, 4), kernel=(3, 1), name=up, stride=(2, 1))
    yield convolution(LARGE, x=(1, 5, 1, 4), kernel=(3, 3), name=up, stride=(2, 1))
    yield convolution(LARGE, x=(1, 5, 5, 4), name=up, dtype="INT16", rescaled="INT16")
    yield convolution(NO, x=(1, 5, 5, 4), name=up, weight="INT8")
    yield convolution(LIMIT, x=(1, 65537, 1, 1), kernel=(1, 1), features=1, name=up)
    yield convolution(LIMIT, x=(1, 3, 3, 1), kernel=(65, 1), features=1, name=up)
