# SPDX-License-Identifier: Apache-2.0
"""`buildgrid`: the scheduler of a cluster of workers, out of wheels. For a campaign only.

It needs PostgreSQL, which is the host's, and workers: //third_party/buildbox:worker.bzl.
"""

load("//third_party/python:wheels.bzl", "wheels")

def buildgrid(name):
    """Declares the repository.

    Args:
        name: its name.
    """
    wheels(
        name = name,
        drop = [
            "bin",
            "**/tests",
        ],
        lock = Label("//third_party/buildgrid:buildgrid.lock.txt"),
    )
