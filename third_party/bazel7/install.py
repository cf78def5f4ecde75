# SPDX-License-Identifier: Apache-2.0
"""Puts Bazel 7 out of Debian's unstable distribution into a directory, to run on an older Debian.

Usage: install.py FOLDER

Writes `FOLDER/bin/bazel`, which uses nothing of the host but its shell, and what actions run. If that fails,
for example because the distribution cannot be reached or has another version or layout, writes the reason to
`FOLDER/bin/missing.txt` instead, and tests that need it are skipped.

The names of packages and libraries change with the distribution: only those of Bazel itself are fixed here.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from debian_packages import Distribution, UnavailableError
from relocate import relink, relocate

_PACKAGE: Final = "bazel-bootstrap"
_VERSION: Final = "7."

# Its native code needs them, and its package does not depend on them.
_FORGOTTEN: Final = ("libblake3-0",)
_TOOLS: Final = ("patchelf",)

# Jars that Debian's jars name by absolute paths.
_HIDDEN_JARS: Final = (
    *(
        "commons-collections3",
        "commons-lang3",
        "jdom1",
        "perfmark-api",
        "perfmark-impl",
        "protobuf",
        "slf4j-api",
    ),
)
_PROGRAMS: Final = (
    "usr/bin/bazel",
    "usr/lib/jvm/*/bin/java",
    "usr/lib/jvm/*/lib/jspawnhelper",
    "usr/libexec/*/bazel/*",
)
_CLASSPATH: Final = "usr/share/bazel/bazel_classpath_debian_depends.txt"

# Modules that Bazel's own depend on, and Debian does not have: nothing in them is used.
_STUBS: Final = ("apple_support", "buildozer", "protobuf", "zlib")
_BUILDOZER: Final = """\
def _impl(_ctx):
    pass

buildozer_binary = module_extension(implementation = _impl)
"""

_LAUNCHER: Final = """\
#!/bin/sh
# Bazel 7 with the modules of its package, and no other registry.
exec {root}/usr/bin/bazel --nosystem_rc --bazelrc={folder}/bazelrc --server_javabase={java} \\
  --install_base={root}/usr/share/bazel --trust_install_base "$@"
"""


def packages(distribution: Distribution) -> set[str]:
    """Returns the packages with Bazel, its libraries and a Java runtime.

    Raises:
        UnavailableError: the distribution has another version.
    """
    version = distribution.version(_PACKAGE)
    if not version.startswith(_VERSION):
        raise UnavailableError(f"Debian's unstable distribution has {_PACKAGE} {version or 'no more'}, not 7")
    runtimes = [name for name in distribution.depends("default-jre-headless") if name.startswith("openjdk-")]
    return distribution.libraries([_PACKAGE, *runtimes, *_FORGOTTEN, *_TOOLS])


def configure(root: Path) -> None:
    """Lets the extracted files find each other."""
    relink(root)
    programs = {path.resolve() for pattern in _PROGRAMS for path in root.glob(pattern)}
    elf = [path for path in sorted(programs) if path.read_bytes()[:4] == b"\x7fELF"]
    relocate(root, elf, root.glob("usr/lib/*/bazel/libcpu_profiler.so"))
    classpath = root / _CLASSPATH
    text = re.sub("^/usr/share/java", f"{root}/usr/share/java", classpath.read_text(), flags=re.MULTILINE)
    hidden = [f"{root}/usr/share/java/{name}.jar\n" for name in _HIDDEN_JARS]
    classpath.write_text(text.rstrip("\n") + "\n" + "".join(hidden))


def write_launcher(folder: Path, root: Path) -> None:
    """Writes `bin/bazel`, its settings, and the modules that Bazel's own need.

    Raises:
        UnavailableError: the packages have another layout.
    """
    settings = [
        line.replace("=/usr/share", f"={root}/usr/share")
        for line in (root / "etc/bazel/bazelrc").read_text().splitlines()
        if "--override_module" in line
    ]
    for name in _STUBS:
        stub = folder / "modules" / name
        stub.mkdir(parents=True)
        (stub / "MODULE.bazel").write_text(f'module(name = "{name}")\n')
        (stub / "BUILD").touch()
        settings.append(f"common --override_module={name}={stub}")
    (folder / "modules/buildozer/buildozer_binary.bzl").write_text(_BUILDOZER)
    settings.append("common --enable_bzlmod --lockfile_mode=off")
    (folder / "bazelrc").write_text("\n".join(settings) + "\n")
    runtimes = [path for path in root.glob("usr/lib/jvm/*") if path.is_dir() and not path.is_symlink()]
    if len(runtimes) != 1:
        names = ", ".join(sorted(path.name for path in runtimes)) or "none"
        raise UnavailableError(f"its packages have several Java runtimes, or none: {names}")
    launcher = folder / "bin" / "bazel"
    launcher.write_text(_LAUNCHER.format(folder=folder, java=runtimes[0], root=root))
    launcher.chmod(0o755)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    root = folder / "root"
    (folder / "bin").mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            distribution = Distribution(Path(temporary))
            distribution.extract(packages(distribution), root)
        for unused in ("doc", "locale", "man"):
            shutil.rmtree(root / "usr/share" / unused, ignore_errors=True)
        configure(root)
        write_launcher(folder, root)
    except (OSError, UnavailableError) as error:
        shutil.rmtree(root, ignore_errors=True)
        (folder / "bin/missing.txt").write_text(f"no Bazel 7: {error}\n")


if __name__ == "__main__":
    main()
