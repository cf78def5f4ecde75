# SPDX-License-Identifier: Apache-2.0
"""The wheels in a directory that pip installed: versions, licenses, and digests from the lock."""

from __future__ import annotations

import email.parser
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wheel_locks import locked_digests, normalized

# Texts in the field License that are not names of licenses.
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, order=True)
class Wheel:
    """An installed wheel.

    Attributes:
        name: normalized name of the distribution.
        version: its version.
        license: SPDX expression, or the name of a license as its authors write it; empty if unknown.
        sha256: the wheel's digest, if the lock has exactly one, else empty.
    """

    name: str
    version: str
    license: str
    sha256: str


def wheels_in(site: Path) -> list[Wheel]:
    """Returns the wheels in a directory, by name."""
    digests = locked_digests(site)
    wheels = []
    for path in site.glob("*.dist-info/METADATA"):
        metadata = email.parser.Parser().parsestr(path.read_text(encoding="utf-8"), headersonly=True)
        name, version = normalized(metadata["Name"]), metadata["Version"]
        license = _license(
            metadata.get("License-Expression", ""),
            metadata.get("License", ""),
            metadata.get_all("Classifier", []),
        )
        wheels.append(Wheel(name, version, license, digests.get((name, version), "")))
    return sorted(wheels)


def _license(expression: str, text: str, classifiers: list[str]) -> str:
    """Returns the license of a wheel: from the first of its fields that has one."""
    if expression:
        return expression
    # Some have the whole text of their license in this field.
    if text and "\n" not in text and len(text) <= _LONGEST_NAME and text != "UNKNOWN":
        return text
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    named = [name for name in names if name != "OSI Approved"]
    return " and ".join(named) or text.strip().split("\n")[0][:_LONGEST_NAME]
