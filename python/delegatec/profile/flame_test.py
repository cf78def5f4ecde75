# SPDX-License-Identifier: Apache-2.0
"""Flame charts of profiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from delegatec.cli.main import run_verb
from delegatec.profile.attribution import Cost, Origin, Profile
from delegatec.profile.flame import COLORS, flame_of
from delegatec.profile.html import ROWS_SHOWN, profile_html
from delegatec.profile.ratio import ratio_of
from delegatec.profile.views import BESIDES, UNKNOWN

_FOLDER = Path(__file__).parent / "testdata"
_PTE, _DEBUG, _ETDUMP = (_FOLDER / f"digits.{suffix}" for suffix in ("pte", "debug.json", "etdump"))


def origin(module: str, operator: str = "aten.relu.default", line: int = 1, via: str = "") -> Origin:
    """A node in a module, at a line of app/net.py."""
    return Origin(f"node_{line}", operator, module, f"app/net.py:{line}", via)


def profile(*costs: Cost) -> Profile:
    """A profile of one run."""
    total = int(sum(each.nanoseconds for each in costs))
    return Profile("forward", ("float32[1, 8]",), 1, 1, total, (total,), costs)


def cost(nanoseconds: float, *origins: Origin, operation: str = "", instruction: int = 0) -> Cost:
    """A cost of a kernel, or of an operation in a delegate."""
    return Cost(
        instruction, operation, "lowered_0" if operation else "aten::relu.out", 1, nanoseconds, origins
    )


_EXAMPLE = profile(
    cost(40, origin("body.0.conv", "aten.conv2d.default"), origin("body.0.act"), operation="Convolution #1"),
    cost(20, origin("body.0.act", line=2), origin("body.1", "aten.add.Tensor", 3), operation="Add #1"),
    cost(10, operation="Copy #1"),
    cost(6, origin("body.0.conv", "aten.conv2d.default"), instruction=0),
    cost(24, origin("head.linear.inner", "aten.linear.default", 7, "lib/layers.py:70"), instruction=1),
)


def test_frames() -> None:
    flame = flame_of(_EXAMPLE)
    found = [(each.depth, each.kind, each.name, each.left, each.nanoseconds) for each in flame.frames]
    assert found == [
        (0, "method", "forward", 0, 100),
        (1, "module", "body", 0, 60),
        (2, "module", "0", 0, 50),
        (3, "module", "conv", 0, 40),  # a convolution has the time of the bound that it applies
        (4, "line", ":1 net.py", 0, 40),
        (5, "operator", "aten.conv2d.default", 0, 40),
        (3, "module", "act", 40, 10),
        (4, "line", ":2 net.py", 40, 10),
        (5, "operator", "aten.relu.default", 40, 10),
        (2, "module", "1", 50, 10),
        (3, "line", ":3 net.py", 50, 10),
        (4, "operator", "aten.add.Tensor", 50, 10),
        (1, "operator", UNKNOWN, 60, 10),
        (1, "besides", BESIDES, 70, 6),
        (1, "module", "head.linear.inner", 76, 24),
        (2, "line", ":70 layers.py", 76, 24),
        (3, "operator", "aten.linear.default", 76, 24),
    ]
    assert (flame.depth, flame.nanoseconds) == (6, 100)
    assert flame.operators[:2] == (("aten.conv2d.default", 40), ("aten.linear.default", 24))
    (line,) = (each for each in flame.frames if each.name == ":70 layers.py")
    assert line.title == "app/net.py:7 \u203a lib/layers.py:70"
    (add,) = (each for each in flame.frames if each.name == "aten.add.Tensor")
    assert add.kernels == {"Add": 10}


def test_colors_are_for_what_takes_most() -> None:
    operators = [f"aten.op{number}.default" for number in range(COLORS + 3)]
    flame = flame_of(profile(*(cost(100 - i, origin("m", name, i)) for i, name in enumerate(operators))))
    colors = {each.name: each.color for each in flame.frames if each.kind == "operator"}
    assert colors == {name: min(index, COLORS) for index, name in enumerate(operators)}


def test_nothing_takes_time() -> None:
    assert [each.kind for each in flame_of(profile()).frames] == ["method"]
    assert "0.000 ms" in profile_html(profile(cost(0, origin("m"))), "idle")


def test_the_page() -> None:
    page = profile_html(_EXAMPLE, "//app:<net>")
    assert page == profile_html(_EXAMPLE, "//app:<net>")
    assert "<title>Profile of //app:&lt;net&gt;</title>" in page and "{{" not in page
    assert not re.search(r"(?:src|href)=|https?://|@import", page)  # one file
    frames = re.findall(r'class="frame (\S+?)"? .*?left:([\d.]+)%;width:([\d.]+)%;top:(\d+)px', page)
    assert ("besides", "70.0000", "6.0000", "24") in [(k.strip('"'), *rest) for k, *rest in frames]
    assert "<b>conv2d</b> 40.0 %" in page and "40.0 %" in page
    tables = re.findall(r"<h2>([A-Z][^<]*)<small>(\d+)", page)
    assert tables == [
        ("Lines of the model", "6"),
        ("Lines of libraries", "6"),
        ("Operators", "6"),
        ("What runs", "5"),
        ("Modules", "6"),
    ]


def test_a_table_folds() -> None:
    costs = [cost(1, origin(f"m{number}", line=number)) for number in range(ROWS_SHOWN + 4)]
    assert "<summary>4 more</summary>" in profile_html(profile(*costs), "long")


def test_the_page_of_a_comparison() -> None:
    before = profile(cost(1_000_000, origin("a", line=1)), cost(5_000_000, origin("b", line=2)))
    after = profile(cost(4_000_000, origin("a", line=1)), cost(2_000_000, origin("c", line=3)))
    ratio = ratio_of(after.rounds, before.rounds, in_turns=True)
    page = profile_html(after, "new", before, ratio, "old.pte")
    changes = re.findall(r'<td class="n (\w*)" data-title="Change">([+-][\d.]+) ms', page)
    assert changes[:3] == [("faster", "-5.000"), ("slower", "+3.000"), ("slower", "+2.000")]
    assert "<code>old.pte</code>" in page and '<div class="value">1.000</div>' in page


def test_the_verb_writes_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["profile", f"--pte={_PTE}", f"--debug={_DEBUG}", str(_ETDUMP), f"--html={tmp_path}/a.html"]
    assert run_verb([*flags, "--label=//app:digits"]) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "//app:digits" in page.replace("<wbr>", "") and "features.4" in page.replace("<wbr>", "")
    assert "the median of 3 of 4 runs" in capfd.readouterr().out
    assert run_verb([*flags, "--method=encode"]) == 2
    assert run_verb(["profile", *flags[1:-1], f"--html={_PTE}"]) == 1  # not over the program
