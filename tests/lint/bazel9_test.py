# SPDX-License-Identifier: Apache-2.0
"""Every .bzl, BUILD and MODULE.bazel file evaluates with what Bazel 9 predeclares.

Bazel 8 and 9 are not tested otherwise. starlark-pyo3 resolves the names in all functions of a file, also in
those that are not called; macros are called with `native` as it is in Bazel 9.
"""

from __future__ import annotations

from pathlib import Path

import bazel9_globals
import pytest
import starlark
from runfiles import Runfiles

RUNFILES = Runfiles.Create()
assert RUNFILES is not None
WORKSPACE = RUNFILES.Rlocation("rules_delegate/WORKSPACE")
assert WORKSPACE is not None
ROOT = Path(WORKSPACE).resolve().parent
CONSUMER = ROOT / "tests" / "consumer" / "workspace"
MINIMAL = ROOT / "e2e" / "minimal"

_GLOBALS = starlark.Globals.extended_by(
    [starlark.LibraryExtension.Json, starlark.LibraryExtension.Print, starlark.LibraryExtension.StructType]
)


def _dialect(*, top_level_statements: bool) -> starlark.Dialect:
    """What Bazel's own Starlark accepts, which has no type annotations and no f-strings."""
    dialect = starlark.Dialect.standard()
    dialect.enable_keyword_only_arguments = True
    dialect.enable_lambda = True
    dialect.enable_top_level_stmt = top_level_statements
    dialect.enable_load_reexport = False
    return dialect


def _files(root: Path, *patterns: str) -> list[str]:
    paths = {path.relative_to(root).as_posix() for pattern in patterns for path in root.rglob(pattern)}
    nested = CONSUMER.relative_to(ROOT).as_posix() if root == ROOT else "bazel-"
    return sorted(path for path in paths if not path.startswith(("bazel-", ".", nested)))


class _Evaluation:
    """Evaluates the files of a workspace, each .bzl file once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules: dict[str, starlark.FrozenModule] = {}

    def evaluate(self, path: str, text: str, predeclared: str) -> starlark.FrozenModule:
        """Evaluates a file.

        Args:
            path: relative to the workspace, for labels and messages.
            text: its content.
            predeclared: Starlark that defines the names that Bazel predeclares. The file may redefine them.

        Raises:
            starlark.StarlarkError: a name is unknown, or the file fails.
        """
        module = starlark.Module()
        dialect = _dialect(top_level_statements=False)
        for text_before in (bazel9_globals.KEPT, predeclared):
            starlark.eval(module, starlark.parse("predeclared", text_before, dialect), _GLOBALS)
        package = path.rpartition("/")[0]
        loader = starlark.FileLoader(lambda label: self.load(label, package))
        starlark.eval(module, starlark.parse(path, text, dialect), _GLOBALS, loader)
        return module.freeze()

    def load(self, label: str, package: str) -> starlark.FrozenModule:
        """Returns the module of a label in a `load` of a package."""
        if label.startswith(":"):
            label = f"//{package}{label}"
        if label not in self.modules:
            self.modules[label] = self._module(label)
        return self.modules[label]

    def _module(self, label: str) -> starlark.FrozenModule:
        if text := bazel9_globals.LOADED.get(label):
            return self.evaluate(label, text, bazel9_globals.BZL)
        repository, _, target = label.partition("//")
        assert repository in ("", "@rules_delegate"), f"bazel9_globals.LOADED lacks {label}"
        if repository and self.root != ROOT:
            return RULES.load(f"//{target}", "")
        path = target.replace(":", "/").lstrip("/")
        return self.evaluate(path, (self.root / path).read_text(), bazel9_globals.BZL)


RULES = _Evaluation(ROOT)
OF_CONSUMER = _Evaluation(CONSUMER)


@pytest.mark.parametrize("evaluation", [RULES, OF_CONSUMER], ids=["rules", "consumer"])
def test_build_files(evaluation: _Evaluation) -> None:
    files = _files(evaluation.root, "BUILD.bazel", "*.BUILD.bazel")
    assert len(files) > 5
    for path in files:
        evaluation.evaluate(path, (evaluation.root / path).read_text(), bazel9_globals.BUILD)


def test_extensions() -> None:
    for path in _files(ROOT, "*.bzl"):
        package, _, name = path.rpartition("/")
        RULES.load(f"//{package}:{name}", "")


@pytest.mark.parametrize("root", [ROOT, CONSUMER, MINIMAL], ids=["rules", "consumer", "minimal"])
def test_module_files(root: Path) -> None:
    text = (root / "MODULE.bazel").read_text()
    _Evaluation(root).evaluate("MODULE.bazel", text, bazel9_globals.MODULE)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("def _f(ctx):\n    return [PyInfo()]\n", "PyInfo"),
        ("def _f(ctx):\n    return cc_common.create()\n", "cc_common"),
        ("def f(name):\n    native.py_test(name = name)\n\nf('name')\n", "py_test"),
        ("sh_binary(name = 'name')\n", "sh_binary"),
    ],
)
def test_what_bazel_9_lacks_is_found(text: str, unknown: str) -> None:
    with pytest.raises(starlark.StarlarkError, match=unknown):
        RULES.evaluate("attempt.bzl", text, bazel9_globals.BZL)
