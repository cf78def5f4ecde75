# SPDX-License-Identifier: Apache-2.0
"""Runs programs in the stock runtime, with its VGF delegate."""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import Any, Final

import executorch.kernels.quantized  # noqa: F401 - registers the kernels that quantize
from executorch.extension.pybindings import _portable_lib

from tests.arm.child import packed_in_order, unpacked_in_order

_SIZE: Final = struct.Struct("<Q")


def _answer(pte: bytes, inputs: list[Any]) -> Any:
    if not _portable_lib._is_available("VgfBackend"):
        return "VgfBackend is not available", []
    try:
        module = _portable_lib._load_for_executorch_from_buffer(pte)
        outputs = module.run_method("forward", [unpacked_in_order(*each) for each in inputs])
    except RuntimeError as error:
        return str(error), []
    return "", [packed_in_order(each) for each in outputs]


def main() -> None:
    requests, answers = (
        os.fdopen(int(number), mode) for number, mode in zip(sys.argv[1:], ("rb", "wb"), strict=True)
    )
    while header := requests.read(_SIZE.size):
        request = pickle.loads(requests.read(_SIZE.unpack(header)[0]))  # noqa: S301 - of our test
        data = pickle.dumps(_answer(*request))
        answers.write(_SIZE.pack(len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    main()
