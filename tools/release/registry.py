# SPDX-License-Identifier: Apache-2.0
"""The entry of a release in a registry of Bazel modules, from the templates in `.bcr`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from archives import MODULE, integrity


@dataclass(frozen=True)
class Maintainer:
    """Who answers for the module in the registry.

    Attributes:
        account: the name of the account on GitHub.
        number: its number, which stays when the name is given to somebody else.
    """

    account: str
    number: int


@dataclass(frozen=True)
class Origin:
    """Where a release is published.

    Attributes:
        repository: OWNER/NAME on GitHub.
        download: the address of the directory of its archives.
        maintainers: at least one in a registry that is public.
    """

    repository: str
    download: str
    maintainers: Sequence[Maintainer] = ()


def entry(
    templates: Path, version: str, archive: bytes, module_file: bytes, origin: Origin
) -> dict[str, bytes]:
    """Returns path in the registry -> contents.

    Args:
        templates: the directory `.bcr`.
        version: the version of the release.
        archive: the source archive.
        module_file: its MODULE.bazel.
        origin: where the archive is published.
    """
    owner, _, repository = origin.repository.partition("/")
    values = {"OWNER": owner, "REPO": repository, "VERSION": version, "DOWNLOAD": origin.download}
    metadata = _filled(templates / "metadata.template.json", values)
    metadata["maintainers"] = [
        {"github": each.account, "github_user_id": each.number, "name": each.account}
        for each in origin.maintainers
    ]
    metadata["versions"] = [version]
    source = _filled(templates / "source.template.json", values) | {"integrity": integrity(archive)}
    folder = f"modules/{MODULE}"
    return {
        "bazel_registry.json": b"{}\n",
        f"{folder}/metadata.json": _json(metadata),
        f"{folder}/{version}/MODULE.bazel": module_file,
        f"{folder}/{version}/presubmit.yml": (templates / "presubmit.yml").read_bytes(),
        f"{folder}/{version}/source.json": _json(source),
    }


def _filled(template: Path, values: Mapping[str, str]) -> dict[str, object]:
    text = template.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    parsed: dict[str, object] = json.loads(text)
    return parsed


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=4) + "\n").encode()
