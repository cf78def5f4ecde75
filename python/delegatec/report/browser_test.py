# SPDX-License-Identifier: Apache-2.0
"""The pages in headless Chromium, if it is installed: nothing is cut off or squeezed on a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from delegatec import Model, export, lower
from delegatec.program import write_program
from delegatec.report.build import build_manifest
from delegatec.report.html import render_html
from delegatec.report.index import entry_of, index_html
from delegatec.report.manifest import Manifest
from delegatec.report.methods import EstimateInfo, LayerInfo, Location, QuantizedValue

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

WHERE = Location("models/a_directory/of_a_model.py", 31, "forward", "return self.layers(self.norm(x) + x)")

# Measures a page of some width in a frame, since the window of a browser cannot be as narrow as a phone.
MEASURE = """<!doctype html><body>
<iframe id="f" src="page.html" style="width:WIDTHpx;height:900px;border:0"></iframe>
<script>
document.getElementById("f").onload = (event) => {
  const page = event.target.contentDocument, narrow = [], ragged = [];
  for (const cell of page.querySelectorAll("td")) {
    const box = cell.getBoundingClientRect();
    const text = cell.textContent.trim();
    if (text.length > 3 && box.width && box.width < 40) narrow.push(text);
    for (const code of cell.querySelectorAll("code")) {
      const right = code.getBoundingClientRect().right;
      if (right > box.right + 1 && !cell.closest("details")) ragged.push(code.textContent);
    }
  }
  const root = page.documentElement;
  const ground = event.target.contentWindow.getComputedStyle(page.body).backgroundColor;
  const found = {width: root.scrollWidth, narrow, ragged, ground, cells: page.querySelectorAll("td").length};
  document.title = "measured " + JSON.stringify(found);
};
</script>"""


def _manifest(folder: Path) -> Manifest:
    """Returns the manifest of a small program, with the widest contents of every section."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    lowered = lower(export(Model(module, (torch.rand(1, 8),))), "mps")
    path = folder / "program.pte"
    with open(path, "wb") as file:
        write_program(lowered.emitted, file)
    manifest = build_manifest(
        lowered,
        path,
        compiler="delegatec",
        label="//a/long/package/of/models:a_model_with_a_long_name_for_the_npu",
        quantized={
            "forward": (
                QuantizedValue(
                    "encoder.layer.0.weight_levels", "weight", "int8", (1e-5, 0.25), (0, 0), 16, WHERE
                ),
                QuantizedValue("layer_norm_17", "activation", "int16", (0.01, 0.01), (-3, -3), 1, WHERE),
            )
        },
    )
    figures = {"cycles": 1_234_567, "off_chip_flash_access_cycles": 765_432, "sram_traffic_bytes": 99_999}
    layer = LayerInfo("quantized_convolution_default_31", "DepthwiseConv2D", figures, WHERE)
    estimates = EstimateInfo("Vela 5.2.0", figures, (layer, layer))
    (method,) = manifest.methods
    delegates = tuple(replace(each, estimates=estimates) for each in method.delegates)
    return replace(manifest, methods=(replace(method, delegates=delegates),))


def _measured(folder: Path, page: str, width: int, *, dark: bool) -> dict[str, object]:
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "measure.html").write_text(MEASURE.replace("WIDTH", str(width)), encoding="utf-8")
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        "--allow-file-access-from-files",
        f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={max(width, 600)},1000",
        "--virtual-time-budget=10000",
        "--dump-dom",
        (folder / "measure.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    title = re.search(r"<title>measured (.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stderr[-2000:]
    found: dict[str, object] = json.loads(html.unescape(title[1]))
    return found


@pytest.mark.parametrize(
    ("kind", "width", "dark"), [("report", 390, False), ("report", 1280, True), ("index", 390, True)]
)
def test_everything_fits(tmp_path: Path, kind: str, width: int, dark: bool) -> None:
    manifest = _manifest(tmp_path)
    page = render_html(manifest) if kind == "report" else index_html([entry_of(manifest, "r.html")] * 3)
    found = _measured(tmp_path, page, width, dark=dark)
    assert isinstance(found["cells"], int) and found["cells"] > 10
    assert found["width"] == width and found["narrow"] == [] and found["ragged"] == []
    assert found["ground"] == ("rgb(18, 22, 29)" if dark else "rgb(246, 247, 249)")
