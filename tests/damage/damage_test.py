# SPDX-License-Identifier: Apache-2.0
"""A sample of damaged files of each kind: commands that read one succeed, or end with a diagnostic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from delegatec.diagnostics import DelegatecError, Diagnostic
from tests.damage.kinds import Kind, prepared
from tests.damage.mutations import mutated_bytes
from tests.damage.search import Search, outcome_of

SEED = os.environ.get("FUZZ_SEED", "0")
COUNT = int(os.environ.get("FUZZ_COUNT", "8"))
# The reference executor of another backend runs these.
_ONLY_ON_A_DEVICE = "ethos_u"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Kind]]:
    """The kinds of files; the working directory has a good file of each."""
    before = Path.cwd()
    yield prepared(tmp_path_factory.mktemp("damage"))
    os.chdir(before)


def test_good_files_are_read(kinds: list[Kind]) -> None:
    expected = {".ptd", "sources.json", "record", "vulkan blob", "mlx blob", "stateful .pt2"}
    assert expected | {"ETDump", "sound", "image"} <= {kind.name for kind in kinds}
    for kind in kinds:
        for reader in kind.readers:
            if isinstance(reader, str) or _ONLY_ON_A_DEVICE not in kind.name:
                assert outcome_of(reader, kind.file)[0] == "read", (kind.name, reader)


def test_damaged_files_end_in_diagnostics(kinds: list[Kind]) -> None:
    found: list[str] = []
    counts = {"read": 0, "refused": 0}
    for kind in kinds:
        search = Search(kind, SEED)
        for _ in search.run(range(COUNT)):
            pass
        found += [f"{kind.name}, seed {SEED}: {what}\n{each.trace}" for what, each in search.failures.items()]
        counts = {outcome: counts[outcome] + search.counts[outcome] for outcome in counts}
    assert not found, "\n".join(found)
    # Damage is neither ignored nor beyond all checks.
    assert min(counts.values()) > COUNT * len(kinds) / 20


def raises(path: str) -> None:
    """A reader that does not check a byte of its file."""
    data = Path(path).read_bytes()
    if data[:1] == b"!":
        raise DelegatecError([Diagnostic("DC407", "it begins with !")])
    if data[1:2] > b"\x7f":
        raise KeyError(data[1])


def test_a_failure_is_found_minimized_and_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.bin").write_bytes(bytes(8))
    kind = Kind("bytes", "good.bin", mutated_bytes, (raises,))
    searches = [Search(kind, "1"), Search(kind, "1")]
    for search in searches:
        for _ in search.run(range(300)):
            pass
    first, second = searches
    assert [*first.failures] and first.failures == second.failures
    (failure, *_) = first.failures.values()
    assert len(failure.edits) == 1
    assert first.damaged(failure.edits)[1] > 127
