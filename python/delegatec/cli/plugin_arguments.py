# SPDX-License-Identifier: Apache-2.0
"""Arguments of verbs that read blobs: the plug-ins that wrote them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from delegatec.delegation import BackendRegistry


def add_plugin_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares `--backend` and `--import-path`."""
    parser.add_argument(
        "--backend",
        action="append",
        default=[],
        metavar="MODULE:ATTRIBUTE",
        help="backend plug-in for the blobs; built-in backends need not be named",
    )
    parser.add_argument(
        "--import-path", action="append", default=[], metavar="DIR", help="import path of the plug-ins"
    )


def registry_of(arguments: argparse.Namespace) -> BackendRegistry:
    """Returns the registry of built-in backends and those of `--backend`."""
    from delegatec.backends import builtin_backends

    registry = builtin_backends()
    sys.path[:0] = arguments.import_path
    for backend in arguments.backend:
        if backend != "portable":
            registry.resolve(backend)
    return registry
