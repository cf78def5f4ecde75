# SPDX-License-Identifier: Apache-2.0
"""A user's workspace builds a model with the source archive of a release, through a registry of modules.

Only the download differs: the registry and the archive are files.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace

import pytest
from archives import MODULE, TEST_MODULE, packed, source_files
from nested_bazel import NestedBazel, nested_bazel, source_root, with_modules
from registry import Origin, entry

# Another one than that of the tree.
_VERSION = "7.8.9"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedBazel]:
    generation = with_modules(is_copy=False)
    folder = tmp_path_factory.mktemp("release")
    root = source_root()
    if subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", root, "rev-parse"], capture_output=True
    ).returncode:
        pytest.skip("the source tree is not a checkout of git")
    files = source_files(root, _VERSION)
    archive = folder / f"{MODULE}-{_VERSION}.tar.gz"
    archive.write_bytes(packed(files, f"{MODULE}-{_VERSION}"))
    origin = Origin("owner/name", folder.as_uri())
    written = entry(root / ".bcr", _VERSION, archive.read_bytes(), files["MODULE.bazel"][0], origin)
    for name, content in written.items():
        path = folder / "registry" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "sources", filter="data")
    workspace = folder / "workspace"
    (folder / "sources" / f"{MODULE}-{_VERSION}" / TEST_MODULE).rename(workspace)
    # Bazel 7 adds declarations of rule sets to a WORKSPACE file, which it would download.
    flags = (*generation.flags, "--noenable_workspace", f"--registry={(folder / 'registry').as_uri()}")
    with nested_bazel(workspace, folder / "output", replace(generation, flags=flags)) as bazel:
        yield bazel


def test_the_archive_builds_and_tests_programs(user: NestedBazel) -> None:
    assert "local_path_override" not in (user.workspace / "MODULE.bazel").read_text()
    # Programs, and the comparison of one with eager mode.
    user.run("test", "//...")
    (external,) = user.output_user_root.glob("*/external")
    module = (external / f"{MODULE}~" / "MODULE.bazel").read_text()
    assert f'version = "{_VERSION}"' in module
    # A copy of the archive, not a link to the source tree.
    assert not (external / f"{MODULE}~" / "tests").exists()
