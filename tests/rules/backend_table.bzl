# SPDX-License-Identifier: Apache-2.0
"""The rules' table of backends as a file, for a test that compares it with the compiler's."""

load("//rules/private:backends.bzl", "BACKENDS")

def _backend_table_impl(ctx):
    table = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(table, json.encode(BACKENDS))
    return [DefaultInfo(
        files = depset([table]),
        runfiles = ctx.runfiles([table]),
    )]

backend_table = rule(
    implementation = _backend_table_impl,
    doc = "Writes what //rules/private:backends.bzl knows of the backends as JSON.",
)
