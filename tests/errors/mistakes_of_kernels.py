# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the kernels of an app."""

from __future__ import annotations

from typing import Final

from mistake import Mistake, lower

_KERNELS: Final = """import torch
@torch.library.custom_op("dsp::window", mutates_args=())
def window(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@torch.library.custom_op("dsp::clear", mutates_args=("x",))
def clear(x: torch.Tensor) -> None:
    x.zero_()
"""


def kernel(does: str, *words: str, name: str = "dsp::window.out", **more: object) -> Mistake:
    """A kernel of the app."""
    flags = ("--kernel-module=dsp", f"--kernel={name}", "--import-path=.")
    return lower(does, "DC211", *words, flags=flags, **{"files": {"dsp.py": _KERNELS}, **more})


KERNELS: Final[tuple[Mistake, ...]] = (
    kernel("names the operator of a kernel", "such as dsp::window.out", name="dsp::window"),
    kernel("misspells a kernel", "did you mean 'window'?", name="dsp::windov.out"),
    kernel("names a kernel of the runtime", "a namespace of your own", name="aten::relu.out"),
    kernel("names an operator that writes", "arguments that it only reads", name="dsp::clear.out"),
    kernel("forgets the module of kernels", "no module named 'dsp'", files={}),
    kernel(
        "raises an exception in a module of kernels",
        "ZeroDivisionError",
        "dsp.py:1",
        files={"dsp.py": "1 / 0\n"},
    ),
)

TABLE: Final = {"In kernels of the app": KERNELS}
