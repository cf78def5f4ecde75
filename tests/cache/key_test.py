# SPDX-License-Identifier: Apache-2.0
"""Each attribute of each rule changes the key of an action; none is forgotten in the key."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from keyed_targets import SOURCES, TARGETS, build_file, own_attributes
from nested_bazel import NestedBazel, copy_of_the_sources, nested_bazel

_PACKAGE = "keyed"
# The programs that backends run would be downloaded.
_FLAGS = [f"--//config:{name}=//{_PACKAGE}:library" for name in ("arm_runtimes", "vela", "model_converter")]


@pytest.fixture(scope="module")
def bazel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedBazel]:
    """A Bazel for a copy of this workspace with another package."""
    folder = tmp_path_factory.mktemp("keys")
    workspace = copy_of_the_sources(folder / "workspace")
    (workspace / _PACKAGE).mkdir()
    for name, text in SOURCES.items():
        (workspace / _PACKAGE / name).write_text(text)
    (workspace / _PACKAGE / "BUILD.bazel").write_text(build_file())
    with nested_bazel(workspace, folder / "output") as bazel:
        yield bazel


def _attributes(bazel: NestedBazel) -> dict[str, set[str]]:
    """Returns the names of the attributes of each target."""
    text = bazel.run("query", "--output=xml", "--xml:default_values", f"//{_PACKAGE}:all").stdout
    rules = re.findall(rf'<rule class="[^"]*" [^>]*name="//{_PACKAGE}:([^"]+)">(.*?)</rule>', text, re.DOTALL)
    return {
        name: {found for found in re.findall(r'<\w+ name="(\w+)"', body) if not found.startswith("_")}
        for name, body in rules
    }


def _keys(bazel: NestedBazel) -> dict[str, list[str]]:
    """Returns keys and inputs of the actions of each target."""
    # A wildcard leaves out manual targets: the updates of golden tests, and benchmarks.
    targets = " + ".join(f"//{_PACKAGE}:{name}" for name in ("all", "benchmark", "updated.update"))
    text = bazel.run("aquery", "--output=text", *_FLAGS, targets).stdout
    keys: dict[str, list[str]] = {}
    for block in text.split("\naction "):
        if found := re.search(rf"^  Target: //{_PACKAGE}:(\S+)$", block, re.MULTILINE):
            lines = re.findall(r"^  +(?:ActionKey|Inputs): .*$", block, re.MULTILINE)
            keys.setdefault(found[1], []).extend(lines)
    return {target: sorted(lines) for target, lines in keys.items()}


def test_each_public_rule_has_a_target(bazel: NestedBazel) -> None:
    page = (bazel.workspace / "docs/rules.md").read_text(encoding="utf-8")
    section = page.split("\n## Rules\n")[1].split("\n## ")[0]
    rules = {
        name
        for name in re.findall(r"^### (\w+)$", section, re.MULTILINE)
        if any(word in name for word in ("app", "operators", "program", "runtime"))
    }
    assert len(rules) > 20
    assert rules | {"program_variants"} == {target.rule for target in TARGETS.values()}


def test_each_attribute_has_another_value(bazel: NestedBazel) -> None:
    own = own_attributes(_attributes(bazel))
    # Two targets of a rule list its attributes together, if one setting excludes another.
    listed: dict[str, set[str]] = {}
    for name, target in TARGETS.items():
        same = [
            other
            for other in TARGETS.values()
            if (other.rule, other.shown_by) == (target.rule, target.shown_by)
        ]
        listed[name] = {attribute for each in same for attribute, _ in each.values()}
    assert {name: own[name] ^ listed[name] for name in TARGETS if own[name] != listed[name]} == {}


def test_every_attribute_changes_the_key(bazel: NestedBazel) -> None:
    build = bazel.workspace / _PACKAGE / "BUILD.bazel"
    before = _keys(bazel)
    wrong = []
    for step in range(max(len(target.values()) for target in TARGETS.values())):
        build.write_text(build_file(step))
        after = _keys(bazel)
        for name, target in TARGETS.items():
            if step >= len(target.values()):
                continue
            attribute, _ = target.values()[step]
            shown = target.shown_by or name
            assert before[shown]
            if (before[shown] != after[shown]) != (attribute in target.others):
                wrong.append(f"{target.rule}.{attribute}")
    assert wrong == []
