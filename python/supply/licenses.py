# SPDX-License-Identifier: Apache-2.0
"""Lists the licenses in the bills of materials of programs, as text and as JSON.

Usage: licenses.py --document=IN.cdx.json... --json=OUT.json --txt=OUT.txt

Arguments may be in a file, `@FILE`, one per line.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

# The types of components that have licenses; sources and data are parts of a model.
_LICENSED: Final = {
    "machine-learning-model": "models",
    "library": "wheels",
    "application": "tools",
}
_HEADINGS: Final = {
    "models": "Models",
    "wheels": "Wheels of the models' code and the compiler",
    "tools": "Compiler",
}
_UNKNOWN: Final = "no license declared"


@dataclass
class Part:
    """A component of one or several programs.

    Attributes:
        name: path of a file, or name of a distribution.
        version: its version; empty for a file.
        licenses: SPDX expressions, or names as the authors write them; empty if none is declared.
        programs: the programs that it is a component of.
    """

    name: str
    version: str
    licenses: list[str]
    programs: list[str] = field(default_factory=list)


def parts_of(documents: Iterable[Mapping[str, Any]]) -> dict[str, list[Part]]:
    """Returns the components of some bills of materials, each once: kind -> parts by name.

    Args:
        documents: CycloneDX documents.
    """
    kinds: dict[str, dict[tuple[str, str, tuple[str, ...]], Part]] = {kind: {} for kind in _LICENSED.values()}
    for document in documents:
        program = document["metadata"]["component"]["name"]
        for component in document["components"]:
            if component["type"] not in _LICENSED:
                continue
            name, version = component["name"], component.get("version", "")
            licenses = licenses_of(component)
            known = kinds[_LICENSED[component["type"]]]
            part = known.setdefault((name, version, tuple(licenses)), Part(name, version, licenses))
            if program not in part.programs:
                part.programs.append(program)
    return {kind: [parts[key] for key in sorted(parts)] for kind, parts in kinds.items()}


def licenses_of(component: Mapping[str, Any]) -> list[str]:
    """Returns the licenses of a component of CycloneDX: expressions, identifiers or names."""
    choices = component.get("licenses", [])
    return [
        each.get("expression") or each["license"].get("id") or each["license"].get("name", "")
        for each in choices
    ]


def text_of(kinds: Mapping[str, Iterable[Part]]) -> str:
    """Returns the list as text."""
    sections = []
    for kind, parts in kinds.items():
        lines = [
            f"  {f'{part.name} {part.version}'.strip()}: {' and '.join(part.licenses) or _UNKNOWN}"
            for part in parts
        ]
        if lines:
            sections.append("\n".join([_HEADINGS[kind], *lines]))
    return "\n\n".join(sections) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the lists."""
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("--document", action="append", default=[])
    parser.add_argument("--json", required=True)
    parser.add_argument("--txt", required=True)
    options = parser.parse_args(arguments)
    kinds = parts_of(json.loads(Path(path).read_text(encoding="utf-8")) for path in options.document)
    listed = {kind: [asdict(part) for part in parts] for kind, parts in kinds.items()}
    Path(options.json).write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    Path(options.txt).write_text(text_of(kinds), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
