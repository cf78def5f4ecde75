# SPDX-License-Identifier: Apache-2.0
"""Holds back what libraries log of work whose outcome we report ourselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_logs(level: int = logging.WARNING) -> Iterator[None]:
    """Lets nothing be logged up to a level, as long as the body runs.

    Args:
        level: as of `logging.disable`.
    """
    disabled = logging.root.manager.disable
    logging.disable(max(level, disabled))
    try:
        yield
    finally:
        logging.disable(disabled)
