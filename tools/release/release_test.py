# SPDX-License-Identifier: Apache-2.0
"""The files of a release: reproducible, complete, with one version, as registries want them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from archives import EXCLUDED, packed, source_files
from nested_bazel import source_root
from registry import Maintainer, Origin, entry
from release import bill_of_materials, main, notes_of
from write_wheel import version_of

ROOT = source_root()
VERSION = version_of((ROOT / "python/delegatec/version.py").read_text(encoding="utf-8"))
GIT = ("git", "-c", "safe.directory=*", "-c", "user.name=n", "-c", "user.email=e")

pytestmark = pytest.mark.skipif(
    bool(subprocess.run([*GIT, "-C", ROOT, "rev-parse"], capture_output=True).returncode),
    reason="the source tree is not a checkout of git",
)


@pytest.fixture(scope="module")
def archive() -> bytes:
    return packed(source_files(ROOT, "1.2.3"), "rules_delegate-1.2.3")


def _members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name: member for member in opened.getmembers()}


def _text(archive: bytes, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        file = opened.extractfile(f"rules_delegate-1.2.3/{name}")
        assert file is not None
        return file.read().decode()


def test_what_users_need_is_in_the_archive(archive: bytes) -> None:
    names = {name.partition("/")[2] for name in _members(archive)}
    assert {"MODULE.bazel", "LICENSE", "rules/defs.bzl", "schemas/program.fbs", "e2e/minimal/foo.py"} <= names
    assert {"python/delegatec/__main__.py", "third_party/python/compiler.lock.txt", "WORKSPACE"} <= names
    assert {name.split("/")[0] for name in names} & EXCLUDED == set()
    # The whole tree has 7 MB.
    assert 1_000_000 < len(archive) < 3_500_000


def test_names_have_no_time_and_no_owner(archive: bytes) -> None:
    members = _members(archive)
    assert list(members) == sorted(members)
    assert {(each.mtime, each.uid, each.gid, each.uname, each.gname) for each in members.values()} == {
        (0, 0, 0, "", "")
    }
    assert members["rules_delegate-1.2.3/bazelw"].mode == 0o755
    assert members["rules_delegate-1.2.3/MODULE.bazel"].mode == 0o644


def test_the_archive_has_the_version(archive: bytes) -> None:
    for name in ("MODULE.bazel", "e2e/minimal/MODULE.bazel"):
        assert 'version = "1.2.3"' in _text(archive, name)
        assert 'version = "0.0.0"' in (ROOT / name).read_text(encoding="utf-8")
    assert "override" not in _text(archive, "e2e/minimal/MODULE.bazel")
    assert "local_path_override" in (ROOT / "e2e/minimal/MODULE.bazel").read_text(encoding="utf-8")


def _checkout(folder: Path, files: dict[str, str], time: int) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        os.utime(folder / name, (time, time))
    subprocess.run([*GIT, "-C", folder, "init", "--quiet"], check=True)
    subprocess.run([*GIT, "-C", folder, "add", "."], check=True)
    return folder


_MODULES = dict.fromkeys(("MODULE.bazel", "e2e/minimal/MODULE.bazel"), 'version = "0.0.0"\n')


def test_the_bytes_follow_from_the_tracked_files(tmp_path: Path) -> None:
    one = _checkout(tmp_path / "one", {**_MODULES, "a.py": "a", "tests/b.py": "b"}, 1)
    two = _checkout(tmp_path / "two/deeper", {"a.py": "a", **_MODULES}, 1_700_000_000)
    (two / "untracked.py").write_text("c")
    (two / "a.py").chmod(0o600)
    first, second = (packed(source_files(root, "1.0"), "p") for root in (one, two))
    assert first == second
    (two / "a.py").write_text("another")
    assert first != packed(source_files(two, "1.0"), "p")


def test_mistakes_of_a_release(tmp_path: Path) -> None:
    # Below a checkout, or not.
    with pytest.raises(SystemExit, match=r"git ls-files|not the root of a checkout"):
        source_files(tmp_path, "1.0")
    checkout = _checkout(tmp_path / "checkout", {"below/a.py": "a", **_MODULES}, 1)
    with pytest.raises(SystemExit, match="not the root of a checkout"):
        source_files(checkout / "below", "1.0")
    stamped = _checkout(tmp_path / "stamped", _MODULES | {"MODULE.bazel": 'version = "1.0"\n'}, 1)
    with pytest.raises(SystemExit, match=r"MODULE\.bazel has .* 0 times"):
        source_files(stamped, "1.0")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "link").symlink_to("nowhere")
    with pytest.raises(SystemExit, match="link is not a regular file"):
        source_files(_checkout(linked, dict(_MODULES), 1), "1.0")
    with pytest.raises(SystemExit, match=r"no section of 9\.9"):
        notes_of("# Changelog\n\n## 9.9\n\n## 9.8\n\n- something\n", "9.9")


@pytest.mark.parametrize("repository", ["rules", "/rules", "owner/", "https://host.example/owner/rules"])
def test_the_repository_has_an_owner(repository: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([f"--repository={repository}", "--maintainer=someone:1234"])
    assert f"{repository!r} is not OWNER/NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--maintainer"),
        (["--maintainer=someone"], "'someone' is not ACCOUNT:ID"),
        (["--maintainer=a b:1"], "'a b:1' is not ACCOUNT:ID"),
    ],
)
def test_a_maintainer_has_an_account(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--repository=owner/rules", *arguments])
    assert words in capsys.readouterr().err


def test_notes() -> None:
    text = "# Changelog\n\n## 0.2.0\n\n- new\n\n### Python\n\n- more\n\n## 0.1.0\n\n- old\n"
    assert notes_of(text, "0.2.0") == "- new\n\n### Python\n\n- more\n"
    assert notes_of(text, "0.1.0") == "- old\n"
    assert notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), VERSION)


def test_the_entry_of_a_registry(archive: bytes) -> None:
    origin = Origin("someone/rules", "https://host.example/v1.2.3", [Maintainer("someone", 1234)])
    written = entry(ROOT / ".bcr", "1.2.3", archive, b"module()\n", origin)
    folder = "modules/rules_delegate"
    source = json.loads(written[f"{folder}/1.2.3/source.json"])
    digest = base64.b64encode(hashlib.sha256(archive).digest()).decode()
    assert source == {
        "docs_url": "https://host.example/v1.2.3/rules_delegate-1.2.3.docs.tar.gz",
        "integrity": f"sha256-{digest}",
        "strip_prefix": "rules_delegate-1.2.3",
        "url": "https://host.example/v1.2.3/rules_delegate-1.2.3.tar.gz",
    }
    metadata = json.loads(written[f"{folder}/metadata.json"])
    assert metadata["repository"] == ["github:someone/rules"] and metadata["versions"] == ["1.2.3"]
    assert metadata["maintainers"] == [{"github": "someone", "github_user_id": 1234, "name": "someone"}]
    assert written[f"{folder}/1.2.3/MODULE.bazel"] == b"module()\n"
    assert all(
        b"{" + name not in content for content in written.values() for name in (b"OWNER", b"REPO", b"VERSION")
    )


def test_the_presubmit_has_what_a_build_needs() -> None:
    text = (ROOT / ".bcr/presubmit.yml").read_text(encoding="utf-8")
    assert 'module_path: "e2e/minimal"' in text and (ROOT / "e2e/minimal/MODULE.bazel").exists()
    tasks = re.split(r"^    (?=\w+:\n)", text.partition("\n  tasks:\n")[2], flags=re.MULTILINE)
    building = [task for task in tasks if "build_targets" in task]
    rows = json.loads((ROOT / "third_party/python/rows.json").read_text(encoding="utf-8"))["rows"]
    downloaded = {row["python"] for row in rows if row["interpreter"] == "debian"}
    assert len(building) == 2
    for task in building:
        # PyPI has no torch for CPUs.
        assert "PIP_EXTRA_INDEX_URL" in task
        # Debian 12 has the Python of the default row, other distributions have not.
        row = re.search(r'DELEGATEC_ROW: "(.+)"', task)
        assert row[1] in downloaded if row else 'platform: "debian12"' in task
    # The registry wants four platforms, arm64 and macOS among them.
    platforms = set(re.findall(r'"((?:debian|macos|ubuntu)\w+)"', text))
    assert len(platforms) >= 4 and {"debian12", "macos_arm64"} <= platforms


def test_the_test_module_is_the_model_of_the_readme() -> None:
    """README.md shows what a user writes."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = (ROOT / "e2e/minimal/foo.py").read_text(encoding="utf-8")
    assert code[code.index("def build") :] in readme


def test_the_bill_of_materials(tmp_path: Path, archive: bytes) -> None:
    path = tmp_path / "rules_delegate-1.2.3.tar.gz"
    path.write_bytes(archive)
    (site,) = {path for path in map(Path, sys.path) if (path / "cyclonedx").is_dir()}
    written = bill_of_materials("1.2.3", path, _text(archive, "MODULE.bazel"), {"sbom": site})
    assert written == bill_of_materials("1.2.3", path, _text(archive, "MODULE.bazel"), {"sbom": site})
    document = json.loads(written)
    product = document["metadata"]["component"]
    assert (product["name"], product["version"]) == ("rules_delegate", "1.2.3")
    assert product["hashes"][0]["content"] == hashlib.sha256(archive).hexdigest()
    urls = {component["purl"].partition("?")[0] for component in document["components"]}
    assert "pkg:pypi/cyclonedx-python-lib@11.12.0" in urls
    assert any(url.startswith("pkg:bazel/rules_python@") for url in urls)
