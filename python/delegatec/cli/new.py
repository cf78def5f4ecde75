# SPDX-License-Identifier: Apache-2.0
"""`delegatec new`: writes the model file and the BUILD file of a first model."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from delegatec.cli.documents import from_where_the_user_is

_BACKENDS: Final = ("mlx", "mps", "portable", "vulkan", "xnnpack")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's arguments."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="KIND:NAME",
        help="transformers:MobileBertModel (or a type, such as mobilebert), timm:resnet18, "
        "module:my.layers:Net, or pt2:net.pt2 of the new directory",
    )
    parser.add_argument("--directory", required=True, metavar="DIR", help="the new package, in a workspace")
    parser.add_argument("--name", default="", help="of the targets; by default that of the model")
    parser.add_argument(
        "--input", action="append", default=[], metavar="DTYPE[SIZES]", help="of module:, for each argument"
    )
    parser.add_argument(
        "--backend", action="append", default=[], choices=_BACKENDS, help="of a program; default: xnnpack"
    )
    parser.add_argument(
        "--rules",
        default="@rules_delegate",
        metavar="REPOSITORY",
        help="the rules, as the workspace names them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the files, and prints what to run."""
    from delegatec.diagnostics import DelegatecError, Diagnostic
    from delegatec.files import replacing
    from delegatec.scaffold import files, package_of, source_of

    source = source_of(arguments.model, arguments.input)
    name = arguments.name or source.name
    if not name.isidentifier():
        problem = f"{name!r} cannot be the name of a Python file"
        raise DelegatecError([Diagnostic("DC001", problem, expected="--name with an identifier")])
    folder = Path(from_where_the_user_is(arguments.directory))
    package = package_of(folder)
    backends = [*dict.fromkeys(arguments.backend or ["xnnpack"])]
    written = {folder / file: text for file, text in files(source, name, backends, arguments.rules).items()}
    existing = [path for path in [*written, folder / "BUILD"] if path.exists()]
    if existing:
        raise DelegatecError(
            Diagnostic(
                "DC004", f"{path} exists", expected="a new file", help="choose another --directory or --name"
            )
            for path in existing
        )
    os.makedirs(folder, exist_ok=True)
    for path, text in written.items():
        with replacing(str(path)) as file:
            file.write(text.encode())
    print(f"Wrote {' and '.join(f'{package}/{path.name}' for path in written)}: {source.title}.")
    for step in source.next_steps:
        print(step)
    program = f"{name}_{backends[0]}"
    commands = {
        f"bazel build //{package}:all": f"bazel-bin/{package}/{program}.pte",
        f"bazel test //{package}:all": "compares it with the model in PyTorch, on this machine",
        f"bazel run //{package}:{program}.explain": "what the backend runs, what it does not, and why",
    }
    width = max(map(len, commands))
    print("\nNext:")
    for command, result in commands.items():
        print(f"  {command:{width}}  # {result}")
    return 0
