# SPDX-License-Identifier: Apache-2.0
"""bazelw on machines with and without some programs: each machine is a directory of programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from runfiles import Runfiles

# Programs that the script uses.
TOOLS = ("mktemp", "printf", "readlink", "rm", "sed", "sh", "tail")

BAZEL = """#!/bin/sh
if [ "$1" = --version ]; then echo "bazel 7.4.1"; exit; fi
for argument in "$@"; do echo "[$argument]"; done
echo "version: ${USE_BAZEL_VERSION-none}"
exit 3
"""
OLD_BAZEL = "#!/bin/sh\necho bazel 4.1.0\n"
PYTHON = "#!/bin/sh\nexit 0\n"
OTHER_PYTHON = "#!/bin/sh\nexit 1\n"
NOTHING = "#!/bin/sh\n"


class Machine:
    """A machine that has only the programs in one directory."""

    def __init__(self, folder: Path, *, root: bool = False) -> None:
        self.programs = folder
        for tool in TOOLS:
            real = shutil.which(tool, path="/usr/bin:/bin")
            assert real is not None, tool
            (folder / tool).symlink_to(real)
        self.add("id", f"#!/bin/sh\necho {0 if root else 1000}\n")
        for compiler in ("g++", "gcc", "java", "npm"):
            self.add(compiler, NOTHING)
        self.add("python3.11", PYTHON)

    def add(self, name: str, script: str) -> None:
        """Installs a program."""
        (self.programs / name).write_text(script)
        (self.programs / name).chmod(0o755)

    def remove(self, name: str) -> None:
        """Removes a program."""
        (self.programs / name).unlink()

    def bazelw(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs the wrapper."""
        runfiles = Runfiles.Create()
        assert runfiles is not None
        script = runfiles.Rlocation("rules_delegate/bazelw")
        assert script is not None
        return subprocess.run(
            ["/bin/sh", script, *arguments],
            env={"PATH": str(self.programs), "TMPDIR": str(self.programs), "DELEGATEC_PYTHON": "python3.11"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A user's machine that has everything but Bazel."""
    return Machine(tmp_path)


def test_arguments_and_exit_status_pass_through_in_silence(machine: Machine) -> None:
    machine.add("bazel", BAZEL)
    done = machine.bazelw("test", "//a b/...", "--flag=$x")
    assert done.stdout.splitlines() == ["[test]", "[//a b/...]", "[--flag=$x]", "version: none"]
    assert (done.stderr, done.returncode) == ("", 3)


def test_bazelisk_will_do_and_gets_the_version_that_is_tested(machine: Machine) -> None:
    machine.add("bazelisk", BAZEL)
    assert machine.bazelw("build").stdout.splitlines() == ["[build]", "version: 4.2.3"]


def test_everything_that_is_missing_is_in_one_message(machine: Machine) -> None:
    for name in ("gcc", "java", "python3.11"):
        machine.remove(name)
    done = machine.bazelw("build")
    assert done.returncode == 1
    assert done.stdout == ""
    for code in ("DC010", "DC013", "DC014", "DC015"):
        assert f"  {code}: no " in done.stderr
    assert "bazel-bootstrap default-jdk-headless gcc python3.11 python3-pip" in done.stderr


def test_another_python_is_not_enough(machine: Machine) -> None:
    machine.add("bazel", BAZEL)
    machine.add("python3.11", OTHER_PYTHON)
    done = machine.bazelw("build")
    assert done.returncode == 1
    assert "DC010: no Python 3.11 with pip" in done.stderr


def test_an_old_bazel_is_rejected(machine: Machine) -> None:
    machine.add("bazel", OLD_BAZEL)
    done = machine.bazelw("build")
    assert done.returncode == 1
    assert "error DC013" in done.stderr
    assert "version 4.1" in done.stderr
    assert "expected: 4.2 or newer" in done.stderr


def test_a_user_without_npm_continues(machine: Machine) -> None:
    machine.add("bazel", BAZEL)
    machine.remove("npm")
    done = machine.bazelw("build")
    assert (done.stderr, done.returncode) == ("", 3)


def test_root_installs_missing_programs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, root=True)
    log = tmp_path / "apt.log"
    # It installs a bazel that runs.
    (tmp_path / "new-bazel").write_text(BAZEL)
    machine.add("cp", f'#!/bin/sh\nexec {shutil.which("cp", path="/usr/bin:/bin")} "$@"\n')
    machine.add("apt-get", f'#!/bin/sh\necho "$@" >> {log}\ncp -p {tmp_path}/new-bazel {tmp_path}/bazel\n')
    (tmp_path / "new-bazel").chmod(0o755)
    done = machine.bazelw("build")
    update, install = log.read_text().splitlines()
    assert update == "update"
    assert "install" in install and "--no-install-recommends bazel-bootstrap" in install
    assert done.stdout.splitlines() == ["[build]", "version: none"]
    assert done.stderr.startswith("bazelw: installing bazel-bootstrap")


def test_a_failed_installation_has_a_reason(tmp_path: Path) -> None:
    machine = Machine(tmp_path, root=True)
    machine.add("apt-get", "#!/bin/sh\necho E: no such package\nexit 100\n")
    done = machine.bazelw("build")
    assert done.returncode == 1
    assert "E: no such package" in done.stderr
    assert "error DC013: apt-get could not install bazel-bootstrap" in done.stderr


def test_root_continues_without_optional_programs(tmp_path: Path) -> None:
    machine = Machine(tmp_path, root=True)
    machine.add("bazel", BAZEL)
    machine.remove("npm")
    machine.add("apt-get", "#!/bin/sh\necho E: no network\nexit 100\n")
    done = machine.bazelw("build")
    assert done.stdout.splitlines() == ["[build]", "version: none"]
    assert done.returncode == 3
    assert "E: no network" in done.stderr
    assert "continuing without npm" in done.stderr
