# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from delegatec.backends.common.tools import Tool
from delegatec.diagnostics import DelegatecError

TOOL = Tool("Example", "json", "example==1.0")


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_a_tool_that_is_not_installed() -> None:
    with pytest.raises(DelegatecError) as caught:
        Tool("Example", "no_such_package", "example==1.0").directory()
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("DC430", "Example is not installed")
    assert "example==1.0" in str(diagnostic.help)


def test_the_directory_of_a_package() -> None:
    assert (TOOL.directory() / "decoder.py").is_file()


def test_messages_and_status(tmp_path: Path) -> None:
    finished = TOOL.run(script("import sys; print('one', flush=True); sys.exit('two')"), tmp_path)
    assert (finished.status, finished.text) == (1, "one\ntwo\n")
    assert finished.ending == "fails with status 1"
    finished = TOOL.run(script("import os; os.abort()"), tmp_path)
    assert (finished.status, finished.ending) == (-6, "is ended by SIGABRT")


def test_the_environment_is_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    finished = TOOL.run(script("import os; print(sorted(os.environ), os.getcwd())"), tmp_path)
    assert "SECRET_OF_THE_CALLER" not in finished.text
    assert finished.text.endswith(f"{tmp_path}\n")


def test_a_module_of_a_relative_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "example_tool.py").write_text("print('found')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("site")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert TOOL.run(TOOL.module("example_tool"), folder).text == "found\n"


def test_a_tool_that_does_not_end(tmp_path: Path) -> None:
    sleeper = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    start = time.monotonic()
    with pytest.raises(DelegatecError, match="Example has not ended after 1 s") as caught:
        TOOL.run(script(sleeper), tmp_path, seconds=1)
    assert time.monotonic() - start < 60
    process = int(caught.value.diagnostics[0].message.split()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.parametrize(
    "program",
    [
        "chunks = []\nwhile True: chunks.append(bytearray(1 << 24))",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_a_tool_that_runs_out_of_memory(tmp_path: Path, program: str) -> None:
    message = "Example runs out of memory: the limit is 0.5 GiB"
    with pytest.raises(DelegatecError, match=message) as caught:
        TOOL.run(script(program), tmp_path, memory=1 << 29)
    assert caught.value.diagnostics[0].code == "DC431"


def test_a_lower_limit_of_the_caller_is_kept(tmp_path: Path) -> None:
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))",
        "from pathlib import Path; from delegatec.backends.common.tools_test import TOOL, script",
        "print(TOOL.run(script('import resource as r; print(r.getrlimit(r.RLIMIT_DATA))'), Path.cwd()).text)",
    )
    assert TOOL.run(script("\n".join(limited)), tmp_path).text.strip() == str((1 << 30, 1 << 30))


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match="Example cannot be started") as caught:
        TOOL.run([tmp_path / "missing"], tmp_path)
    assert caught.value.diagnostics[0].code == "DC431"


def test_only_the_end_of_many_messages_is_kept(tmp_path: Path) -> None:
    text = TOOL.run(script("print('x' * 1000000); print('last')"), tmp_path).text
    assert len(text) == 64 * 1024
    assert text.endswith("last\n")


def test_the_end_of_the_messages_is_in_the_error() -> None:
    error = TOOL.failure("rejects the graph", "\n\n".join(f"line {number}" for number in range(30)))
    (diagnostic,) = error.diagnostics
    assert diagnostic.message.splitlines()[0] == "Example rejects the graph"
    assert diagnostic.message.splitlines()[-1] == "  line 29"
    assert "line 17" not in diagnostic.message
