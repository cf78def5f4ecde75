# SPDX-License-Identifier: Apache-2.0
"""Launchers quote what they pass to the compiler for the shell."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "program_test")
load("//rules/private:launcher.bzl", "quoted")
load(":actions.bzl", "action_of")

# Bazel accepts quotes and dollar signs in names, too.
_NAME = "launcher_of_'$HOME'"

def _quoted_test_impl(ctx):
    env = analysistest.begin(ctx)
    script = action_of(env, "FileWrite").content
    for word in [
        "'--label=//tests/rules:launcher_of_'\\''$HOME'\\'''",
        "'--entry=mlp_samples:it'\\''s'",
        "--source=\"$runfiles\"/'%s/tests/rules/models/mlp_samples.py'" % ctx.workspace_name,
    ]:
        asserts.true(env, (" %s " % word) in script, "%s is not in\n%s" % (word, script))
    asserts.equals(env, "'a b'", quoted("a b"))
    return analysistest.end(env)

_quoted_test = analysistest.make(_quoted_test_impl)

def launcher_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    program_test(
        name = _NAME,
        srcs = ["//tests/rules/models:mlp_samples.py"],
        inputs_entry = "mlp_samples:it's",
        program = "//tests/rules/models:mlp_mps",
        tags = ["manual"],
    )
    _quoted_test(
        name = name + "_quoted",
        size = "small",
        target_under_test = _NAME,
    )
    native.test_suite(
        name = name,
        tests = [name + "_quoted"],
    )
