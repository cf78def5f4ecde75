# SPDX-License-Identifier: Apache-2.0
"""What `program_profile` passes to the compiler, with and without a runner for this host."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "program_profile")
load(":actions.bzl", "action_of")

_RUN_ON_HOST = {
    "program": "mlp.pt2",
    "runner": "mlp_samples.py",
    "samples-file": "mlp.samples.safetensors",
}

def _flags_test_impl(ctx):
    env = analysistest.begin(ctx)
    script = action_of(env, "FileWrite").content
    for flag, name in _RUN_ON_HOST.items():
        word = " --%s=\"$runfiles\"/'%s/tests/rules/models/%s'" % (flag, ctx.workspace_name, name)
        asserts.equals(env, ctx.attr.runs_on_host, word in script, "%s in\n%s" % (word, script))
        asserts.equals(env, ctx.attr.runs_on_host, (" --%s=" % flag) in script)
    for flag, name in {"debug": "mlp_mps.debug.json", "pte": "mlp_mps.pte"}.items():
        word = " --%s=\"$runfiles\"/'%s/tests/rules/models/%s'" % (flag, ctx.workspace_name, name)
        asserts.true(env, word in script, "%s is not in\n%s" % (word, script))
    return analysistest.end(env)

_flags_test = analysistest.make(_flags_test_impl, attrs = {"runs_on_host": attr.bool()})

def profile_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    runners = {"host": "//tests/rules/models:mlp_samples.py", "no_runner": "//runtime:no_runner"}
    for case, runner in runners.items():
        program_profile(
            name = "profile_with_" + case,
            program = "//tests/rules/models:mlp_mps",
            runner = runner,
            tags = ["manual"],
        )
        _flags_test(
            name = "%s_%s" % (name, case),
            size = "small",
            runs_on_host = case == "host",
            target_under_test = "profile_with_" + case,
        )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, case) for case in runners],
    )
