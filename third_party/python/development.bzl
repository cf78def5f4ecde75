# SPDX-License-Identifier: Apache-2.0
"""What the tests, the examples and the lint of this repository want besides, and no user of the rules does."""

load("//third_party/buildifier:repository.bzl", "buildifier")
load(":sites.bzl", "python_sites")

def development_repositories():
    """Declares the wheels of tests, examples, oracle and lint, and @delegatec_buildifier."""
    python_sites(["lint", "models", "oracle", "test"])
    if not native.existing_rule("delegatec_buildifier"):
        buildifier(name = "delegatec_buildifier")
