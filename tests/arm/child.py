# SPDX-License-Identifier: Apache-2.0
"""A process that answers requests one after the other: a script with other libraries than this process."""

from __future__ import annotations

import os
import pickle
import select
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from runfiles import Runfiles

_SIZE: Final = struct.Struct("<Q")


class ChildError(Exception):
    """A child ended, or did not answer in time. The text has its messages."""


def runfile(path: str, variable: str) -> Path:
    """Returns a directory in the runfiles; outside of Bazel, the one that a variable names."""
    runfiles = Runfiles.Create()
    found = runfiles.Rlocation(path) if runfiles is not None else None
    if found is None or not Path(found).exists():
        found = os.environ.get(variable)
        assert found is not None, f"outside of Bazel, {variable} must name {path}"
    return Path(found).absolute()


class Child:
    """A child process, which is started again if it has ended.

    Args:
        command: the script; the numbers of two pipes, for requests and answers, are appended.
        environment: its complete environment.
    """

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None
        self._pipes: tuple[int, int] = (-1, -1)

    def ask(self, request: Any, seconds: float = 300) -> Any:
        """Returns the answer to a request.

        Raises:
            ChildError: the child ended, or there is no answer after that many seconds.
        """
        process = self._running()
        reading, writing = self._pipes
        data, deadline = pickle.dumps(request), time.monotonic() + seconds
        try:
            with os.fdopen(os.dup(writing), "wb") as file:
                file.write(_SIZE.pack(len(data)) + data)
            (size,) = _SIZE.unpack(_read(reading, _SIZE.size, deadline))
            return pickle.loads(_read(reading, size, deadline))  # noqa: S301 - of our script
        except (OSError, EOFError) as error:
            self.close()
            raise ChildError(
                f"{type(error).__name__}, exit status {process.returncode}\n{self.log()}"
            ) from error

    def log(self) -> str:
        """Returns the end of its messages."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), 8192, max(0, size - 8192)).decode(errors="replace")

    def close(self) -> None:
        """Ends the child."""
        if self._process is not None:
            for pipe in self._pipes:
                os.close(pipe)
            self._process.kill()
            self._process.wait()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            requests, writing = os.pipe()
            reading, answers = os.pipe()
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child
            self._process = subprocess.Popen(
                [*self._command, str(requests), str(answers)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=self._environment,
                pass_fds=(requests, answers),
            )
            os.close(requests)
            os.close(answers)
            self._pipes = (reading, writing)
        return self._process


def _read(pipe: int, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        chunk = os.read(pipe, min(size - len(data), 1 << 20))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


Packed = tuple[bytes, str, tuple[int, ...]]
"""Bytes, NumPy's dtype and sizes of an array: versions of NumPy cannot unpickle each other's arrays."""


_INTEGERS: Final = {
    torch.bfloat16: torch.uint16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}
"""dtype that NumPy lacks -> the one that it is exchanged as; the reference model returns raw bytes."""


def packed(tensor: torch.Tensor) -> Packed:
    """Returns a tensor for a request."""
    if tensor.dtype in _INTEGERS:
        tensor = tensor.contiguous().view(_INTEGERS[tensor.dtype])
    array = tensor.detach().contiguous().numpy()
    return array.tobytes(), array.dtype.str, tuple(array.shape)


def unpacked(array: Packed) -> torch.Tensor:
    """Returns a tensor of an answer."""
    import numpy as np

    data, dtype, shape = array
    found = np.frombuffer(data, dtype)
    if found.dtype.kind == "V":
        found = found.view(f"u{found.dtype.itemsize}")
    return torch.from_numpy(found.reshape(shape).copy())


def packed_in_order(tensor: torch.Tensor) -> tuple[Packed, bool]:
    """Returns a tensor for a request, and whether it is channels-last."""
    is_last = tensor.dim() == 4 and not tensor.is_contiguous() and _is_last(tensor)
    return packed(tensor.permute(0, 2, 3, 1) if is_last else tensor), is_last


def unpacked_in_order(array: Packed, is_last: bool) -> torch.Tensor:
    """Returns a tensor of an answer, which may be channels-last."""
    tensor = unpacked(array)
    return tensor.permute(0, 3, 1, 2) if is_last else tensor


def _is_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last)
