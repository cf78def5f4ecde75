# SPDX-License-Identifier: Apache-2.0
"""Test results as JUnit XML, in the file that Bazel asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree

from delegatec.diagnostics.exceptions import printable


@dataclass(frozen=True)
class Case:
    """A test case.

    Attributes:
        name: the subject of the test, such as "forward, output 0 ['logits']".
        figures: name -> the measurement, as properties.
        failure: the reason of its failure; empty if it passed.
    """

    name: str
    figures: Mapping[str, object] = field(default_factory=dict)
    failure: str = ""


def write_junit(label: str, cases: Sequence[Case]) -> None:
    """Writes the results of a test to the file named by the environment variable XML_OUTPUT_FILE, if any.

    Args:
        label: the target of the test.
        cases: the results.
    """
    path = os.environ.get("XML_OUTPUT_FILE")
    if not path:
        return
    counts = {"tests": str(len(cases)), "failures": str(sum(bool(case.failure) for case in cases))}
    name = label or "delegatec"
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, "errors": "0", **counts})
    for case in cases:
        element = ElementTree.SubElement(suite, "testcase", {"name": printable(case.name), "classname": name})
        if case.figures:
            properties = ElementTree.SubElement(element, "properties")
            for key, value in case.figures.items():
                each = {"name": key, "value": printable(str(value))}
                ElementTree.SubElement(properties, "property", each)
        if case.failure:
            text = "\n".join(map(printable, case.failure.splitlines()))
            found = ElementTree.SubElement(element, "failure", {"message": text.partition("\n")[0]})
            found.text = text
    ElementTree.indent(root)
    root.tail = "\n"
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
