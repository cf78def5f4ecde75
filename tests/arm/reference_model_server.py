# SPDX-License-Identifier: Apache-2.0
"""Runs graphs in the TOSA reference model, each in a forked child: it crashes on some that are invalid."""

from __future__ import annotations

import os
import pickle
import resource
import struct
import sys
from typing import Any, BinaryIO, Final

import numpy as np
import tosa_reference_model

_SIZE: Final = struct.Struct("<Q")
_MEMORY: Final = 8 << 30


def _send(file: BinaryIO, answer: Any) -> None:
    data = pickle.dumps(answer)
    file.write(_SIZE.pack(len(data)) + data)
    file.flush()


def _run(graph: bytes, inputs: list[tuple[bytes, str, tuple[int, ...]]], seconds: int) -> Any:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    arrays = [np.frombuffer(data, dtype).reshape(shape).copy() for data, dtype, shape in inputs]
    try:
        outputs, status = tosa_reference_model.run(graph, arrays)
    except Exception as error:  # noqa: BLE001 - the answer
        return f"{type(error).__name__}: {error}", []
    return status.name, [
        (np.ascontiguousarray(each).tobytes(), each.dtype.str, each.shape) for each in outputs
    ]


def main() -> None:
    requests, answers = (
        os.fdopen(int(number), mode) for number, mode in zip(sys.argv[1:], ("rb", "wb"), strict=True)
    )
    while header := requests.read(_SIZE.size):
        request = pickle.loads(requests.read(_SIZE.unpack(header)[0]))  # noqa: S301 - of our test
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                _send(file, _run(*request))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            data = file.read()
        _, status = os.waitpid(child, 0)
        if data:
            answers.write(data)
            answers.flush()
        else:
            _send(answers, (f"ended with {os.waitstatus_to_exitcode(status)}", []))


if __name__ == "__main__":
    main()
