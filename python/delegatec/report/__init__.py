# SPDX-License-Identifier: Apache-2.0
"""Descriptions of a build's result: the manifest (JSON), the report (HTML), and text for the terminal."""

from delegatec.report.build import build_manifest as build_manifest
from delegatec.report.html import render_html as render_html
from delegatec.report.manifest import Manifest as Manifest
from delegatec.report.manifest import to_json as to_json
