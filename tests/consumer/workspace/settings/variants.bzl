# SPDX-License-Identifier: Apache-2.0
"""A rule that builds programs under several values of the workspace's settings."""

load("@rules_delegate//rules:defs.bzl", "program_variants_rule")

program_variants = program_variants_rule(
    settings = [Label("//settings:precision")],
)
