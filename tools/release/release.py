# SPDX-License-Identifier: Apache-2.0
"""Writes the files of a release, from a commit without changes.

Usage: bazel run //tools/release -- --repository=OWNER/NAME --maintainer=ACCOUNT:ID ... [--output=DIRECTORY]

| file | contents |
| --- | --- |
| `rules_delegate-VERSION.tar.gz` | the source archive, with the version in MODULE.bazel |
| `rules_delegate-VERSION.docs.tar.gz` | the documentation of the rules, from `starlark_doc_extract` |
| `rules_delegate-VERSION.cdx.json` | a bill of materials: the wheels and modules that a build fetches |
| `delegatec-VERSION-py3-none-any.whl` | the compiler for pip and uv |
| `release_notes.md` | the version's section of CHANGELOG.md |
| `registry/` | the module's entry in a registry, also for `--registry=file://` |
| `SHA256SUMS` | digests of the files above, apart from the registry's |

The version is that of `python/delegatec/version.py`, and no other file of the tree has it. The same commit
gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import sbom
from archives import MODULE, git, packed, source_files
from cyclonedx.model.component import Component, ComponentType
from licenses_page import sites_of_runfiles
from packageurl import PackageURL
from registry import Maintainer, Origin, entry
from rules_page import extracted_module
from runfiles import Runfiles
from wheels import wheels_in
from write_wheel import version_of

_DEPENDENCY: Final = re.compile(r'^bazel_dep\(name = "([^"]+)", version = "([^"]+)"\)$', re.MULTILINE)


def notes_of(changelog: str, version: str) -> str:
    """Returns the section of a version in CHANGELOG.md.

    Raises:
        SystemExit: there is none.
    """
    section = rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)"
    found = re.search(section, changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise SystemExit(f"release: CHANGELOG.md has no section of {version}: expected ## {version}")
    return found[1].strip() + "\n"


def bill_of_materials(version: str, archive: Path, module_file: str, sites: Mapping[str, Path]) -> str:
    """Returns the bill of materials of the source archive, as CycloneDX JSON.

    Args:
        version: the version of the release.
        archive: the source archive.
        module_file: its MODULE.bazel, for the modules that it depends on.
        sites: name -> directory of the wheels that the rules install.
    """
    product = sbom.file_component(ComponentType.LIBRARY, MODULE, str(archive), "Apache-2.0")
    product.version = version
    wheels = {wheel.name + wheel.version: wheel for site in sites.values() for wheel in wheels_in(site)}
    modules = [
        Component(type=ComponentType.LIBRARY, name=name, version=known, bom_ref=url.to_string(), purl=url)
        for name, known in _DEPENDENCY.findall(module_file)
        for url in [PackageURL("bazel", name=name, version=known)]
    ]
    return sbom.document(product, [*map(sbom.wheel_component, wheels.values()), *modules])


def write_sources(root: Path, folder: Path, version: str, origin: Origin) -> Path:
    """Writes the source archive and the entry of a registry.

    Returns:
        The archive.
    """
    files = source_files(root, version)
    archive = folder / f"{MODULE}-{version}.tar.gz"
    archive.write_bytes(packed(files, f"{MODULE}-{version}"))
    module_file = files["MODULE.bazel"][0]
    written = entry(root / ".bcr", version, archive.read_bytes(), module_file, origin)
    for name, content in written.items():
        path = folder / "registry" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return archive


def _sums(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _repository(text: str) -> str:
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not OWNER/NAME")
    return text


def _maintainer(text: str) -> Maintainer:
    found = re.fullmatch(r"([A-Za-z0-9-]+):(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not ACCOUNT:ID, such as someone:1234")
    return Maintainer(found[1], int(found[2]))


def main(arguments: Sequence[str]) -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--repository", required=True, type=_repository, metavar="OWNER/NAME", help="on GitHub"
    )
    parser.add_argument(
        "--maintainer",
        action="append",
        required=True,
        type=_maintainer,
        metavar="ACCOUNT:ID",
        help="on GitHub, with the number of the account, which the registry verifies; may be repeated",
    )
    parser.add_argument("--download", default="", metavar="URL", help="where the archives are")
    parser.add_argument("--output", type=Path, default=Path("dist"), metavar="DIRECTORY")
    parser.add_argument("--site", action="append", default=[], help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)

    root = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    if changed := git(root, "status", "--porcelain", "--untracked-files=no"):
        raise SystemExit(f"release: files differ from the commit: commit or stash\n{changed}")
    version = version_of((root / "python/delegatec/version.py").read_text(encoding="utf-8"))
    notes = notes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    download = flags.download or f"https://github.com/{flags.repository}/releases/download/v{version}"
    output = root / flags.output
    if output.exists() and any(output.iterdir()):
        raise SystemExit(f"release: {output} is not empty: remove it, or name another --output")
    output.mkdir(parents=True, exist_ok=True)

    archive = write_sources(root, output, version, Origin(flags.repository, download, flags.maintainer))
    (output / "release_notes.md").write_text(notes, encoding="utf-8")
    runfiles = Runfiles.Create()
    wheel = runfiles and runfiles.Rlocation("rules_delegate/python/delegatec/wheel")
    assert wheel is not None
    for path in Path(wheel).iterdir():
        shutil.copyfile(path, output / path.name)
    module_file = source_files(root, version)["MODULE.bazel"][0].decode()
    # Besides them, runfiles have the wheels that this program imports.
    sites = {name: site for name, site in sites_of_runfiles(Path.cwd().parent).items() if name in flags.site}
    assert len(sites) == len(flags.site), "a site is not among the runfiles"
    bill = bill_of_materials(version, archive, module_file, sites)
    (output / f"{MODULE}-{version}.cdx.json").write_text(bill, encoding="utf-8")
    with tempfile.TemporaryDirectory() as temporary:
        extracted = extracted_module(Path(temporary), "binaryproto")
    docs = packed({"docs/rules.binaryproto": (extracted, 0o644)})
    (output / f"{MODULE}-{version}.docs.tar.gz").write_bytes(docs)
    (output / "SHA256SUMS").write_text(_sums(output), encoding="utf-8")
    for path in sorted(output.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes" if path.is_file() else f"{path.name}/")


if __name__ == "__main__":
    main(sys.argv[1:])
