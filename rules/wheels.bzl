# SPDX-License-Identifier: Apache-2.0
"""Wheels of a team's own, for the WORKSPACE file or `use_repo_rule` in MODULE.bazel."""

load("//third_party/python:team_wheels.bzl", _wheels = "wheels")

wheels = _wheels
