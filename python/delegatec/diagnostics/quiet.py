# SPDX-License-Identifier: Apache-2.0
"""Suppression of log messages from libraries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_logs(level: int = logging.WARNING) -> Iterator[None]:
    """Disables logging up to a level while the body runs.

    Args:
        level: a level as for `logging.disable`.
    """
    disabled = logging.root.manager.disable
    logging.disable(max(level, disabled))
    try:
        yield
    finally:
        logging.disable(disabled)


@contextmanager
def quiet_logger(name: str, level: int = logging.WARNING) -> Iterator[None]:
    """Disables the messages of one logger up to a level while the body runs.

    Args:
        name: the logger's name.
        level: a level as for `logging.disable`.
    """
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(max(level + 1, before))
    try:
        yield
    finally:
        logger.setLevel(before)
