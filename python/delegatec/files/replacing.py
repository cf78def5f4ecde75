# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of output files."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yields a binary file that replaces `path` on success, and is deleted otherwise.

    Concurrent writers of one path do not disturb each other: the last one to finish wins.

    Raises:
        OSError: names `path`, not the temporary file.
    """
    target = replaceable(path)
    temporary = temporary_beside(target)
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename, error.filename2 = os.fspath(path), None
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def replaceable(path: str | os.PathLike[str]) -> str:
    """Returns the absolute path of the file that writing to `path` replaces, with symbolic links resolved.

    Raises:
        OSError: `path` exists and is not a regular file, such as a directory or a device.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        check_regular(path)
    return os.path.realpath(path)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Checks that a path is a regular file: reading a device or a pipe may never end.

    Raises:
        OSError: names `path`.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))


def temporary_beside(target: str) -> str:
    """Returns a path in the directory of `target` that no other process uses."""
    folder, name = os.path.split(target)
    # Most file systems limit names to 255 bytes.
    return os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.partial")
