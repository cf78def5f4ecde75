# SPDX-License-Identifier: Apache-2.0
"""Runs TOSA graphs: by Arm's reference model, in an interpreter that has it, or by our executor.

The model's dependencies are other versions than ours, so that it is in another process. It crashes on some
invalid graphs, so that each graph is run in a forked process of that one. As a script, this file is the
server.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

_SIZE: Final = struct.Struct("<Q")
_SECONDS: Final = 60


def _send(stream: IO[bytes], value: Any) -> None:
    data = pickle.dumps(value, protocol=4)
    stream.write(_SIZE.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    size = stream.read(_SIZE.size)
    if len(size) < _SIZE.size:
        raise EOFError
    # The two processes trust each other.
    return pickle.loads(stream.read(*_SIZE.unpack(size)))  # noqa: S301


def serve() -> None:
    """Answers requests on the standard streams until they end."""
    # On an invalid graph the model starts a debugger, if it finds one.
    os.environ["PATH"] = os.devnull
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # The model prints.
    while True:
        try:
            blob, inputs = _receive(requests)
        except EOFError:
            return
        source, target = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(_SECONDS)
            with os.fdopen(target, "wb") as stream:
                _send(stream, _answer(blob, inputs))
            os._exit(0)
        os.close(target)
        with os.fdopen(source, "rb") as stream:
            try:
                answer = _receive(stream)
            except EOFError:
                answer = "the reference model crashes, or exceeds its time", []
        os.waitpid(pid, 0)
        _send(answers, answer)


def _answer(blob: bytes, inputs: Sequence[tuple[bytes, str, tuple[int, ...]]]) -> tuple[str, list[Any]]:
    import numpy
    import tosa_reference_model

    arrays = [numpy.frombuffer(data, dtype).reshape(shape).copy() for data, dtype, shape in inputs]
    try:
        outputs, status = tosa_reference_model.run(blob, arrays)
    except Exception as error:  # noqa: BLE001 - the client reports it
        return f"{type(error).__name__}: {error}", []
    problem = "" if status.name == "TOSA_VALID" else f"the reference model returns {status.name}"
    return problem, [(numpy.ascontiguousarray(o).tobytes(), o.shape) for o in outputs]


class ReferenceModel:
    """A process that runs graphs by Arm's reference model; it is started by the first graph of each process.

    Args:
        python: an interpreter with `tosa_reference_model`.
    """

    def __init__(self, python: Path) -> None:
        self._python = python
        self._server: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def run(self, blob: bytes, inputs: Sequence[Any]) -> list[Any]:
        """Returns the outputs of a graph.

        Raises:
            InvalidGraphError: the model rejects it, or its results are not defined.
        """
        import torch

        from delegatec.backends.arm.blob import read_blob
        from delegatec.backends.arm.dtypes import STORED
        from tests.peer.arm.ours import InvalidGraphError

        if self._server is None or self._owner != os.getpid():
            self._start()
        assert self._server is not None and self._server.stdin is not None
        assert self._server.stdout is not None
        given = [_plain(each) for each in inputs]
        _send(self._server.stdin, (blob, given))
        problem, results = _receive(self._server.stdout)
        if problem:
            raise InvalidGraphError(problem)
        outputs = read_blob(memoryview(blob)).outputs
        return [
            torch.frombuffer(bytearray(data), dtype=STORED[value.dtype]).reshape(shape)
            for (data, shape), value in zip(results, outputs, strict=True)
        ]

    def _start(self) -> None:
        command = [str(self._python), "-B", __file__]
        quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._server = subprocess.Popen(command, env={"OMP_NUM_THREADS": "1"}, **quiet)  # type: ignore[call-overload]
        self._owner = os.getpid()


def _plain(value: Any) -> tuple[bytes, str, tuple[int, ...]]:
    import torch

    tensor = value.detach().contiguous()
    # Types that numpy lacks are integers.
    integers = {
        torch.bfloat16: torch.uint16,
        torch.float8_e4m3fn: torch.uint8,
        torch.float8_e5m2: torch.uint8,
    }
    shape = tuple(tensor.shape)
    if tensor.dtype in integers:
        tensor = tensor.view(integers[tensor.dtype])
    array = tensor.numpy()
    return array.tobytes(), array.dtype.str, shape


if __name__ == "__main__":
    serve()
