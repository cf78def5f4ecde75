# SPDX-License-Identifier: Apache-2.0
"""The page of a profile in headless Chromium, if it is installed: it fits a phone, and frames enlarge."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from delegatec.profile.attribution import Cost, Origin, Profile
from delegatec.profile.html import profile_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

# Clicks on the frame of a module, then on it again, in a frame as wide as a phone.
_CLICKS = """<!doctype html><body>
<iframe id="f" src="page.html" style="width:390px;height:900px;border:0"></iframe>
<script>
document.getElementById("f").onload = (event) => {
  const page = event.target.contentDocument;
  const flame = page.querySelector(".flame").getBoundingClientRect();
  const frames = [...page.querySelectorAll(".frame")];
  const shown = () => frames.map((each) => {
    const box = each.getBoundingClientRect();
    return [each.title.split("\\n")[0], Math.round(box.left - flame.left), Math.round(box.width)];
  });
  const target = frames.find((each) => each.title.startsWith("features.1\\n"));
  const found = {width: page.documentElement.scrollWidth, flame: Math.round(flame.width), before: shown()};
  target.click();
  found.enlarged = shown();
  target.click();
  found.after = shown();
  document.title = "measured " + JSON.stringify(found);
};
</script>"""


def _profile() -> Profile:
    costs = []
    for index, module in enumerate(["features.0", "features.1", "features.1", "classifier.a_long_name"] * 20):
        origin = Origin("linear", f"aten.op{index % 9}.default", module, f"a/long/path/net.py:{index}", "")
        costs.append(Cost(index, "", "aten::linear.out", 1, 1e6 + index, (origin,)))
    return Profile("forward", ("float32[1, 8]",), 2, 1, 9e7, (9e7,), tuple(costs))


def test_a_frame_is_enlarged(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        profile_html(_profile(), "//a/package:with_a_program"), encoding="utf-8"
    )
    (tmp_path / "clicks.html").write_text(_CLICKS, encoding="utf-8")
    found = _measured(tmp_path)
    assert found["width"] == 390
    before, enlarged = ({name: box for name, *box in found[each]} for each in ("before", "enlarged"))
    assert before["forward"] == [0, found["flame"]] and found["after"] == found["before"]
    assert before["features.1"][1] == pytest.approx(found["flame"] / 2, abs=2)
    for name in ("forward", "features", "features.1"):
        assert enlarged[name] == [0, found["flame"]], name
    assert enlarged["features.0"][1] == 0  # hidden


def _measured(folder: Path) -> Any:
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        "--allow-file-access-from-files",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=600,1000",
        "--virtual-time-budget=10000",
        "--dump-dom",
        (folder / "clicks.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    title = re.search(r"<title>measured (.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stderr[-2000:]
    return json.loads(html.unescape(title[1]))
