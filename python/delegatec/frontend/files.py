# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of output files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Yields a binary file that replaces `path` on success, and is deleted otherwise.

    Raises:
        OSError: names `path`, not the temporary file.
    """
    temporary = f"{path}.partial"
    try:
        with open(temporary, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
