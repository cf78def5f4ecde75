# SPDX-License-Identifier: Apache-2.0
"""Writes the wheel of the compiler into a directory.

Usage: write_wheel.py --output=DIRECTORY --license=FILE --requirements=DIRECTORY [--root=DIRECTORY...] FILE...

A name in the wheel is relative to the first root that contains the file. The version is that of
`delegatec/version.py`, and the requirements are those that the locks are resolved from. The bytes follow from
the contents of the files, and from the zlib of the interpreter. Arguments may be in a file, `@FILE`, one per
line.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

NAME: Final = "delegatec"
_VERSION_FILE: Final = f"{NAME}/version.py"
_TAG: Final = "py3-none-any"

# Extra, or "" for what every user needs -> the sites with its wheels, `third_party/python/SITE.in.txt`.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("compiler",),
    "arm": ("model_converter", "vela"),
    "language": ("models",),
    "quantize": ("quantization",),
}

# What the bytes of programs depend on may change in its last part only, the others in all but the first.
_FIXED: Final = frozenset({"ai-ml-sdk-model-converter", "ethos-u-vela", "torch", "torchao"})

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)==([0-9]+(?:\.[0-9]+)+)(?:\+\w+)?(?:\s+#.*)?")

_METADATA: Final = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Compiles PyTorch models to ExecuTorch programs with delegates
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
{requirements}
Description-Content-Type: text/markdown

`delegatec` compiles PyTorch models to the `.pte` files of ExecuTorch's runtime, for MLX, MPS, Vulkan,
XNNPACK, TOSA, VGF and Ethos-U, and compares them with eager mode on the host. It is the compiler of the
Bazel rules `rules_delegate`.

    import delegatec

    exported = delegatec.export(delegatec.Model(module, example_inputs))
    delegatec.lower(exported, "xnnpack").save("model.pte")

`delegatec --help` lists the commands.
"""


_WHEEL: Final = f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: true\nTag: {_TAG}\n"


def requirements(folder: Path) -> list[str]:
    """Returns the requirements of the wheel, as in the core metadata.

    Args:
        folder: the directory of the `.in.txt` files.

    Raises:
        SystemExit: a line is neither a comment nor one version of a distribution.
    """
    return [
        _compatible(site, line) + (f'; extra == "{extra}"' if extra else "")
        for extra, sites in EXTRAS.items()
        for site in sites
        for line in (folder / f"{site}.in.txt").read_text(encoding="utf-8").splitlines()
        if line.partition("#")[0].strip()
    ]


def _compatible(site: str, line: str) -> str:
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        raise SystemExit(f"{site}.in.txt: {line!r}: expected NAME==VERSION, such as numpy==2.4.6")
    name, version = match.groups()
    parts = version.split(".")
    return f"{name}~={'.'.join(parts if name in _FIXED else parts[:2])}"


def named(files: Iterable[Path], roots: Sequence[Path]) -> dict[str, Path]:
    """Returns name in the wheel -> file.

    Raises:
        SystemExit: a file is in no root.
    """
    found = {}
    for file in files:
        root = next((root for root in roots if file.is_relative_to(root)), None)
        if root is None:
            raise SystemExit(f"{file} is not in {', '.join(map(str, roots))}")
        found[file.relative_to(root).as_posix()] = file
    return found


def version_of(text: str) -> str:
    """Returns the version in the text of `version.py`."""
    (version,) = re.findall(r'^VERSION\b.* = "([^"]+)"$', text, re.MULTILINE)
    return str(version)


def write_wheel(files: Mapping[str, Path], license: Path, requires: Iterable[str], folder: Path) -> Path:
    """Writes the wheel.

    Args:
        files: name in the wheel -> file.
        license: the file of the license.
        requires: the requirements.
        folder: the directory to write it to.

    Returns:
        The wheel.
    """
    version = version_of(files[_VERSION_FILE].read_text(encoding="utf-8"))
    info = f"{NAME}-{version}.dist-info"
    metadata = _METADATA.format(
        name=NAME,
        version=version,
        requirements="\n".join(
            [*(f"Provides-Extra: {extra}" for extra in EXTRAS if extra)]
            + [f"Requires-Dist: {requirement}" for requirement in requires]
        ),
    )
    contents = {name: file.read_bytes() for name, file in sorted(files.items())} | {
        f"{info}/licenses/LICENSE": license.read_bytes(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
        f"{info}/entry_points.txt": f"[console_scripts]\n{NAME} = {NAME}.__main__:run\n".encode(),
    }
    contents[f"{info}/RECORD"] = "".join(_records(contents, info)).encode()
    wheel = folder / f"{NAME}-{version}-{_TAG}.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            opened.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return wheel


def _records(contents: Mapping[str, bytes], info: str) -> Iterator[str]:
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        yield f"{name},sha256={digest},{len(content)}\n"
    yield f"{info}/RECORD,,\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the wheel as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    for flag in ("output", "license", "requirements"):
        parser.add_argument(f"--{flag}", type=Path, required=True)
    parser.add_argument("--root", type=Path, action="append", default=[])
    parser.add_argument("files", nargs="+", type=Path)
    flags = parser.parse_args(arguments)
    write_wheel(named(flags.files, flags.root), flags.license, requirements(flags.requirements), flags.output)


if __name__ == "__main__":
    main()
