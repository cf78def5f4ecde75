# SPDX-License-Identifier: Apache-2.0
"""Output files that are whole, or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends well, and vanishes otherwise.

    Raises:
        OSError: it names `path`, and no file that the caller has not heard of.
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
