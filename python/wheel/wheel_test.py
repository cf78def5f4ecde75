# SPDX-License-Identifier: Apache-2.0
"""The compiler's wheel: its metadata, its bytes, and the programs that it builds without Bazel."""

from __future__ import annotations

import configparser
import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from runfiles import Runfiles
from write_wheel import EXTRAS, requirements, version_of, write_wheel

RUNFILES = Runfiles.Create()
assert RUNFILES is not None

_VERSION = 'from typing import Final\n\nVERSION: Final = "1.2.3"\n'


def _runfile(path: str) -> Path:
    assert RUNFILES is not None
    found = RUNFILES.Rlocation(f"rules_delegate/{path}")
    assert found is not None and Path(found).exists(), path
    return Path(found)


@pytest.fixture(scope="module")
def wheel() -> Path:
    (found,) = _runfile("python/delegatec/wheel").iterdir()
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which pip has installed the wheel, without what it requires."""
    folder = tmp_path_factory.mktemp("installed")
    flags = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    done = subprocess.run(
        [_python_with_pip(), "-m", "pip", "install", *flags, "--target", folder, wheel],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(folder), "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    return folder


def _python_with_pip() -> str:
    """Returns a Python of the host: that of the build has no pip."""
    for name in ("python3.11", "/usr/bin/python3.11", "python3", sys.executable):
        path = shutil.which(name)
        if path and not subprocess.run([path, "-I", "-c", "import pip"], capture_output=True).returncode:
            return path
    pytest.skip("no Python with pip on the PATH")


def _delegatec(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed command, with the wheels of the build, and no other module of this repository."""
    wheels = [path for path in sys.path if path.endswith("site-packages")]
    script = installed / "bin" / "delegatec"
    return subprocess.run(
        # Not by its first line, which names the Python that pip ran in.
        [sys.executable, "-s", script, *arguments],
        cwd=folder,
        env={
            "HOME": str(folder),
            "OMP_NUM_THREADS": "1",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(installed), *wheels]),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        (info,) = {name.partition("/")[0] for name in opened.namelist() if ".dist-info/" in name}
        metadata = email.message_from_bytes(opened.read(f"{info}/METADATA"))
        scripts = configparser.ConfigParser()
        scripts.read_string(opened.read(f"{info}/entry_points.txt").decode())
        version = version_of(opened.read("delegatec/version.py").decode())
    assert wheel.name == f"delegatec-{version}-py3-none-any.whl"
    assert info == f"delegatec-{version}.dist-info" and metadata["Version"] == version
    assert dict(scripts["console_scripts"]) == {"delegatec": "delegatec.__main__:run"}
    required = metadata.get_all("Requires-Dist", [])
    needed = {text.partition("~=")[0] for text in required if "extra" not in text}
    assert needed == {"flatbuffers", "jinja2", "numpy", "safetensors", "torch"}
    for extra, package in (("quantize", "torchao"), ("arm", "ethos-u-vela"), ("language", "transformers")):
        assert [
            text for text in required if text.startswith(package) and text.endswith(f'extra == "{extra}"')
        ]
    assert {*metadata.get_all("Provides-Extra", [])} == {*filter(None, EXTRAS)}


def test_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = {*opened.namelist()}
    assert {
        "delegatec/py.typed",
        "delegatec/report/templates/report.html.jinja",
        "wheel_locks/__init__.py",
    } <= names
    assert {"delegatec_schemas/program.py", "delegatec_schemas/xnnpack_graph.py"} <= names
    tests = {name for name in names if name.endswith("_test.py") or "testing" in name or "testdata" in name}
    assert tests == set()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {
        "delegatec",
        "delegatec_schemas",
        "wheel_locks",
    }


# Example -> its files, and the backends whose programs the build has.
_EXAMPLES: Final = {
    "digits": (
        ("digits.py", "digits.safetensors", "network.py"),
        ("mlx", "mps", "portable", "vulkan", "xnnpack"),
    ),
    "keywords": (("keywords.py", "keywords.safetensors", "ds_cnn.py", "speech.py"), ("portable",)),
    "mobilenet_v2": (("mobilenet_v2.py",), ("mlx", "mps", "portable", "vulkan", "xnnpack")),
}
_PROGRAMS: Final = [
    (example, backend) for example, (_, backends) in _EXAMPLES.items() for backend in backends
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("example", "backend"), _PROGRAMS)
def test_programs_have_the_bytes_of_the_build(
    installed: Path, tmp_path: Path, example: str, backend: str
) -> None:
    folder, (files, _) = f"examples/{example}", _EXAMPLES[example]
    (tmp_path / folder).mkdir(parents=True)
    for name in files:
        shutil.copy(_runfile(f"{folder}/{name}"), tmp_path / folder / name)
    data = [f"--data={folder}/{name}" for name in files if name.endswith(".safetensors")]
    source = [f"--entry={example}:build", f"--source={folder}/{example}.py", f"--import-path={folder}"]
    pt2, pte = f"{example}.pt2", f"{example}_{backend}.pte"
    for arguments in (
        ["export", *source, *data, f"--program={pt2}"],
        ["lower", f"--program={pt2}", f"--backend={backend}", f"--pte={pte}"],
    ):
        done = _delegatec(installed, tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    for name in (pt2, pte):
        assert (tmp_path / name).read_bytes() == _runfile(f"{folder}/{name}").read_bytes(), name


def test_the_command(installed: Path, tmp_path: Path) -> None:
    assert "quantize" in _delegatec(installed, tmp_path, "--help").stdout
    done = _delegatec(installed, tmp_path, "inspect", "missing.pte")
    assert done.returncode != 0 and "error DC" in done.stderr and "Traceback" not in done.stderr


def _written(folder: Path, names: Mapping[str, str], time: int = 0) -> bytes:
    folder.mkdir(parents=True)
    files = {}
    for name, text in names.items():
        files[name] = folder / name.replace("/", "_")
        files[name].write_text(text)
        os.utime(files[name], (time, time))
    (folder / "LICENSE").write_text("a license")
    return write_wheel(files, folder / "LICENSE", ["torch~=2.13.0"], folder).read_bytes()


def test_the_bytes_follow_from_the_contents(tmp_path: Path) -> None:
    names = {"delegatec/version.py": _VERSION, "delegatec/a.py": "", "delegatec/b.py": "b = 1\n"}
    one = _written(tmp_path / "one", names)
    two = _written(tmp_path / "deeper" / "two", dict(reversed(names.items())), time=1_700_000_000)
    assert one == two
    assert one != _written(tmp_path / "three", names | {"delegatec/a.py": "a = 1\n"})


def test_ranges(tmp_path: Path) -> None:
    for sites in EXTRAS.values():
        for site in sites:
            (tmp_path / f"{site}.in.txt").write_text("# SPDX\n")
    (tmp_path / "compiler.in.txt").write_text("# Reason.\ntorch==2.13.0+cpu\nnumpy==2.4.6\n")
    (tmp_path / "models.in.txt").write_text("gguf==0.19.0  # without dependencies\n")
    assert requirements(tmp_path) == ["torch~=2.13.0", "numpy~=2.4", 'gguf~=0.19; extra == "language"']


@pytest.mark.parametrize(
    "line", ["numpy>=2.4", "numpy[fast]==2.4.6", "numpy==2.5.0rc1", "numpy==2", "-r a.txt"]
)
def test_a_requirement_is_not_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / "compiler.in.txt").write_text(f"torch==2.13.0+cpu\n{line}\n")
    with pytest.raises(SystemExit, match=re.escape(f"compiler.in.txt: {line!r}: expected NAME==VERSION")):
        requirements(tmp_path)
