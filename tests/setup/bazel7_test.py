# SPDX-License-Identifier: Apache-2.0
"""Where Bazel 7 cannot be had, its repository states the reason, which skips the tests that need it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from runfiles import Runfiles

_REACHABLE = 'case "$1" in indextargets) echo http://mirror.example/debian/ ;; esac'
_UNREACHABLE = _REACHABLE.replace("esac", '*) echo "E: no network" >&2; exit 100 ;; esac')
_DEPENDS = """\
case "$*" in
  *" tool") printf '%s\\n' 'tool' '  Depends: libdirect' '  Depends: <libvirtual>' '    libreal' ;;
esac"""
_LIBRARIES = """\
import sys
from pathlib import Path
from debian_packages import Distribution
print(*sorted(Distribution(Path(sys.argv[1])).libraries(["tool"])))
"""
_POLICY = 'case "$1" in policy) echo "  Candidate: {version}" ;; esac'


def run(folder: Path, programs: Mapping[str, str], *command: str | Path) -> str:
    """Runs Python next to the scripts, with other programs on the PATH; returns its output."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    script = runfiles.Rlocation("rules_delegate/third_party/bazel7/install.py")
    assert script is not None
    path = folder / "programs"
    path.mkdir()
    for name, text in programs.items():
        program = path / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    # Isolated from the variables of the test.
    return subprocess.run(
        [sys.executable, "-s", "-B", *command],
        cwd=Path(script).resolve().parent,
        env={"PATH": f"{path}:{os.defpath}"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def install(folder: Path, **programs: str) -> str:
    """Runs the script with other programs on the PATH, and returns the reason that it writes."""
    run(folder, programs, "install.py", folder / "bazel7")
    assert not (folder / "bazel7/bin/bazel").exists()
    return (folder / "bazel7/bin/missing.txt").read_text()


def test_no_distribution(tmp_path: Path) -> None:
    reason = install(tmp_path, apt_get=_UNREACHABLE)
    assert reason.startswith("no Bazel 7: apt-get update")
    assert reason.endswith("E: no network\n")


def test_no_mirror(tmp_path: Path) -> None:
    reason = install(tmp_path, apt_get="exit 0")
    assert reason == "no Bazel 7: the host's apt has no mirror of Debian\n"


@pytest.mark.parametrize(("version", "shown"), [("8.4.0+ds-1", "8.4.0+ds-1"), ("(none)", "no more")])
def test_another_version(tmp_path: Path, version: str, shown: str) -> None:
    reason = install(tmp_path, apt_get=_REACHABLE, apt_cache=_POLICY.format(version=version))
    assert reason == f"no Bazel 7: Debian's unstable distribution has bazel-bootstrap {shown}, not 7\n"


def test_packages_without_bazel(tmp_path: Path) -> None:
    reason = install(tmp_path, apt_get=_REACHABLE, apt_cache=_POLICY.format(version="7.9.0"))
    assert reason.startswith("no Bazel 7: [Errno 2] No such file or directory")


def test_a_library_that_provides_another_one(tmp_path: Path) -> None:
    folder = tmp_path / "distribution"
    folder.mkdir()
    programs = {"apt_get": _REACHABLE, "apt_cache": _DEPENDS}
    assert run(tmp_path, programs, "-c", _LIBRARIES, folder) == "libdirect libreal tool\n"
