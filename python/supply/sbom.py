# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of a program: CycloneDX 1.6, as JSON, checked against its schema.

Usage: sbom.py --label=LABEL --manifest=IN.json --output=OUT.json --program=NAME=PATH
    [--source=NAME=PATH]... [--data=NAME=PATH]... [--model=NAME=PATH]... [--license=NAME=EXPRESSION]...
    [--site=FOLDER]...

NAME is the file's path in the document, EXPRESSION the license of a model. The same inputs give the same
bytes: there is no time in the document, and its serial number is derived from its contents. Arguments may be
in a file, `@FILE`, one per line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from wheels import Wheel, wheels_in

# The namespace of the serial numbers, which are UUIDs of version 5.
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "rules_delegate/sbom")

# Argument -> the type of its components.
_FILES: Final = {
    "source": ComponentType.FILE,
    "data": ComponentType.DATA,
    "model": ComponentType.MACHINE_LEARNING_MODEL,
}


def digest_of(path: str) -> str:
    """Returns the SHA-256 digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_component(kind: ComponentType, name: str, path: str, license: str = "") -> Component:
    """Returns the component of a file, with its digest, and its license if there is one."""
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest_of(path))]
    return Component(type=kind, name=name, bom_ref=f"file:{name}", hashes=hashes, licenses=_licenses(license))


def _licenses(text: str) -> list[License]:
    return [LicenseFactory().make_from_string(text)] if text else []


def wheel_component(wheel: Wheel) -> Component:
    """Returns the component of a wheel, with its license, and its digest if the lock has one."""
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=wheel.sha256)] if wheel.sha256 else []
    url = PackageURL("pypi", name=wheel.name, version=wheel.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=wheel.name,
        version=wheel.version,
        bom_ref=url.to_string(),
        purl=url,
        hashes=hashes,
        licenses=_licenses(wheel.license),
    )


def compiler_component(text: str) -> Component:
    """Returns the component of the compiler; its text in manifests is a name and a version."""
    name, _, version = text.partition(" ")
    return Component(
        type=ComponentType.APPLICATION,
        name=name,
        version=version,
        bom_ref=f"compiler:{name}",
        licenses=[LicenseFactory().make_with_id("Apache-2.0")],
    )


def document(program: Component, parts: Iterable[Component]) -> str:
    """Returns the document as JSON.

    Raises:
        ValueError: it does not conform to the schema.
    """
    bom = Bom()
    bom.metadata.component = program
    bom.metadata.timestamp = None  # type: ignore[assignment]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(program, list(bom.components))
    # The serial number of a new document is random: derive it from the document with a fixed one.
    bom.serial_number = _NAMESPACE
    bom.serial_number = uuid.uuid5(_NAMESPACE, _text(bom))
    text = _text(bom)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the document does not conform to CycloneDX 1.6: {str(error).splitlines()[0]}")
    return text


def _text(bom: Bom) -> str:
    # The library sorts what it writes; keys are sorted here, as it does not promise their order.
    return json.dumps(json.loads(JsonV1Dot6(bom).output_as_string()), indent=2, sort_keys=True) + "\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    for flag in ("label", "manifest", "output", "program"):
        parser.add_argument(f"--{flag}", required=True)
    for flag in (*_FILES, "license", "site"):
        parser.add_argument(f"--{flag}", action="append", default=[])
    options = parser.parse_args(arguments)

    program = file_component(ComponentType.MACHINE_LEARNING_MODEL, *options.program.split("=", 1))
    program.group = options.label.rpartition(":")[0]
    licenses = dict(argument.split("=", 1) for argument in options.license)
    parts = {}
    for flag, kind in _FILES.items():
        for argument in getattr(options, flag):
            name, _, path = argument.partition("=")
            part = file_component(kind, name, path, licenses.get(name, ""))
            parts[part.bom_ref.value] = part
    for site in options.site:
        for wheel in wheels_in(Path(site)):
            part = wheel_component(wheel)
            parts.setdefault(part.bom_ref.value, part)
    compiler = compiler_component(json.loads(Path(options.manifest).read_text(encoding="utf-8"))["compiler"])
    try:
        text = document(program, [*parts.values(), compiler])
    except ValueError as error:
        print(f"{options.label}: {error}", file=sys.stderr)
        return 1
    Path(options.output).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
