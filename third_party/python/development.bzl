# SPDX-License-Identifier: Apache-2.0
"""Repositories for the tests, examples and linters of this repository, which users of the rules do not need."""

load("//third_party/bazel7:repository.bzl", "bazel7")
load("//third_party/buildbox:repository.bzl", "buildbox")
load("//third_party/buildbox:worker.bzl", "buildbox_worker")
load("//third_party/buildgrid:repository.bzl", "buildgrid")
load("//third_party/buildifier:repository.bzl", "buildifier")
load("//third_party/rivals:repository.bzl", "rivals")
load(":sites.bzl", "DEVELOPMENT_SITES", "python_sites")

def development_repositories():
    """Declares the wheels of tests, examples, oracle and lint, and the tools @delegatec_{bazel7,buildbox,...}."""
    python_sites(DEVELOPMENT_SITES)
    bazel7(name = "delegatec_bazel7")
    buildbox(name = "delegatec_buildbox")
    buildbox_worker(name = "delegatec_buildbox_worker")
    buildgrid(name = "delegatec_buildgrid")
    buildifier(name = "delegatec_buildifier")
    rivals(name = "delegatec_rivals")
