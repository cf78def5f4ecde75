# SPDX-License-Identifier: Apache-2.0
"""Locks of installed wheels: a line `NAME==VERSION --hash=sha256:...` for each.

It is not part of `delegatec`, since tools read locks that must not import torch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

INSTALLED_LOCK: Final = "wheels.lock.txt"
"""Name of the file in a directory of wheels."""

_PIN: Final = re.compile(r"([^=\s]+)==(\S+)((?: --hash=\S+)+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def locked_digests(site: Path) -> dict[tuple[str, str], str]:
    """Returns (normalized name, version) -> SHA-256 of each wheel in a directory that has exactly one."""
    lock = site / INSTALLED_LOCK
    if not lock.is_file():
        return {}
    pins = [_PIN.match(line) for line in lock.read_text(encoding="utf-8").splitlines()]
    digests = {(normalized(pin[1]), pin[2]): _HASH.findall(pin[3]) for pin in pins if pin}
    return {key: values[0] for key, values in digests.items() if len(values) == 1}


def normalized(name: str) -> str:
    """Returns a distribution's normalized name, as in the core metadata specification."""
    return re.sub(r"[-_.]+", "-", name).lower()
