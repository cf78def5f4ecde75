# SPDX-License-Identifier: Apache-2.0
"""The templates of HTML pages, with the functions that they use."""

from __future__ import annotations

import re

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from delegatec.report.estimates import costly, figure_names
from delegatec.report.partition_picture import short_name
from delegatec.report.sizes import human_bytes


def template(name: str, package: str = "") -> Template:
    """Returns a template.

    Args:
        name: its file.
        package: a package whose templates include those of this one; "" for this one.
    """
    packages = [package, "delegatec.report"] if package else ["delegatec.report"]
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(bytes=human_bytes, short=short_name, percent=_percent, shape=_shape)
    environment.filters.update(costly=costly, figure_names=figure_names, breakable=_breakable)
    return environment.get_template(name)


def _breakable(label: str) -> Markup:
    """Returns a label that may be broken into lines between its parts, not inside words."""
    return Markup("").join(
        part if index % 2 == 0 else part + Markup("<wbr>")
        for index, part in enumerate(map(escape, re.split(r"([/:_.-]+)", label)))
    )


def _percent(part: int, whole: int) -> str:
    if whole == 0:
        return "0 %"
    if part in (0, whole):
        return f"{100 * part // whole} %"
    value = min(max(100 * part / whole, 0.1), 99.9)  # never round to none or all
    return f"{value:.0f} %" if 1 <= value <= 99 else f"{value:.1f} %"


def _shape(sizes: tuple[int, ...]) -> str:
    return " \u00d7 ".join(map(str, sizes)) or "scalar"
