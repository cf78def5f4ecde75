# SPDX-License-Identifier: Apache-2.0
"""Repositories for the tests, examples and linters of this repository, which users of the rules do not need."""

load("//third_party/buildbox:repository.bzl", "buildbox")
load("//third_party/buildifier:repository.bzl", "buildifier")
load("//third_party/mesa:repository.bzl", "mesa")
load(":sites.bzl", "python_sites")

def development_repositories():
    """Declares the wheels of tests, examples, oracle and lint, and @delegatec_{buildbox,buildifier,mesa}."""
    python_sites(["emulation_layer", "lint", "models", "oracle", "test", "tosa_tools"])
    if not native.existing_rule("delegatec_buildbox"):
        buildbox(name = "delegatec_buildbox")
    if not native.existing_rule("delegatec_buildifier"):
        buildifier(name = "delegatec_buildifier")
    if not native.existing_rule("delegatec_mesa"):
        mesa(name = "delegatec_mesa")
