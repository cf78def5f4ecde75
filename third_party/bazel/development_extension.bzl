# SPDX-License-Identifier: Apache-2.0
"""The module extension for this repository's tests, examples and linters. MODULE.bazel says which repositories."""

load("//third_party/python:development.bzl", _declare = "development_repositories")

def _development_repositories_impl(_module_ctx):
    _declare()

development_repositories = module_extension(
    implementation = _development_repositories_impl,
    doc = "Declares the repositories that users of the rules do not need.",
)
