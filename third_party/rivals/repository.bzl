# SPDX-License-Identifier: Apache-2.0
"""`rivals`: ONNX Runtime and LiteRT, with what they need to make files of a model. For a benchmark only."""

load("//third_party/python:wheels.bzl", "wheels")

def rivals(name):
    """Declares the repository.

    Args:
        name: its name.
    """
    wheels(
        name = name,
        drop = [
            "bin",
            "**/tests",
            # Of onnxscript.
            "docs",
            "scripts",
        ],
        lock = Label("//third_party/rivals:rivals.lock.txt"),
    )
