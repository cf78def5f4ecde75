# SPDX-License-Identifier: Apache-2.0
"""A rule of variants, as users declare one."""

load("//rules:defs.bzl", "program_variants_rule")

# The types of settings.
TYPES = ["bool", "int", "list", "string"]

program_variants = program_variants_rule(
    settings = [Label("//tests/rules:variant_" + each) for each in TYPES],
)
