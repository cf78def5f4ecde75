# SPDX-License-Identifier: Apache-2.0
"""The configuration file of a board: clocks, memories, and the data placed in them."""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SYSTEM = "System_Config."
_MEMORY_MODE = "Memory_Mode."
_MEMORIES: Final = {
    "const": ("Dram", "OnChipFlash", "OffChipFlash"),
    "arena": ("Sram", "Dram"),
    "cache": ("Sram",),
}
"""Data that a memory mode assigns -> the memories that Vela accepts."""


@dataclass(frozen=True)
class Configuration:
    """A configuration file, without comments.

    Attributes:
        text: its sections; empty for Vela's own file.
    """

    text: str = ""

    @classmethod
    def parse(cls, text: str) -> Configuration:
        """Reads a file, or parses the result of `str`.

        Args:
            text: the path of a file, or its text, which starts with a section.

        Raises:
            ValueError: the file cannot be read, or is not a configuration file.
        """
        if not text:
            return cls()
        if not text.startswith("["):
            try:
                text = Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ValueError(f"{text!r} cannot be read: {reason}") from error
        sections = _parsed(text)
        if not sections.sections():
            raise ValueError("the configuration file has no sections")
        lines: list[str] = []
        for section in sections.sections():
            lines += [f"[{section}]", *(f"{key}={value}" for key, value in sections.items(section)), ""]
        return cls("\n".join(lines))

    def __str__(self) -> str:
        """Returns the canonical text."""
        return self.text

    def problems(self, system: str, memory_mode: str) -> Iterator[tuple[str, str]]:
        """Yields a problem and the valid names for each name that the file does not have.

        Args:
            system: the name of a system.
            memory_mode: the name of a memory mode.
        """
        sections = _parsed(self.text)
        for option, prefix, name in (
            ("system_config", _SYSTEM, system),
            ("memory_mode", _MEMORY_MODE, memory_mode),
        ):
            names = [each[len(prefix) :] for each in sections.sections() if each.startswith(prefix)]
            expected = " or ".join(names) or f"a file with a section {prefix}NAME"
            if not name:
                yield f"option {option!r} is not set, and option 'config' replaces its default", expected
            elif name not in names:
                yield f"the configuration file has no section {prefix}{name}", expected
        broken = False
        for section in sections.sections():
            inherited = sections.get(section, "inherit", fallback="")
            if inherited and (
                not sections.has_section(inherited) or section in _ancestors(sections, inherited)
            ):
                broken = True
                yield f"section {section} inherits {inherited!r}", "another section of the file"
        chosen = _SYSTEM + system, _MEMORY_MODE + memory_mode
        if not broken and all(map(sections.has_section, chosen)):
            yield from _misplaced(sections, *chosen)


def _ancestors(sections: configparser.ConfigParser, section: str) -> list[str]:
    """Returns a section and those that it inherits, in order."""
    found: list[str] = []
    while sections.has_section(section) and section not in found:
        found.append(section)
        section = sections.get(section, "inherit", fallback="")
    return found


def _misplaced(
    sections: configparser.ConfigParser, system: str, memory_mode: str
) -> Iterator[tuple[str, str]]:
    """Yields a problem and the valid memories for each area in a memory that cannot store it."""

    def value(section: str, key: str) -> str:
        each = next((each for each in _ancestors(sections, section) if sections.has_option(each, key)), "")
        return sections.get(each, key, fallback="")

    ports = {area: value(memory_mode, f"{area}_mem_area") for area in _MEMORIES}
    is_shared = len(set(ports.values())) == 1
    for area, valid in _MEMORIES.items():
        memory = value(system, f"{ports[area].lower()}_port")
        # one memory for everything may be Sram
        if memory and memory not in valid and not (is_shared and memory == "Sram"):
            yield f"{memory_mode}: {area}_mem_area is {memory} of {system}", " or ".join(valid)


def _parsed(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(f"invalid configuration file: {' '.join(str(error).split())}") from error
    return parser
