# SPDX-License-Identifier: Apache-2.0
"""What `program_profile` and `program_benchmark` pass to the compiler, with and without a runner for this host."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "program_benchmark", "program_profile")
load(":actions.bzl", "action_of", "names_of")

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

def _benchmark_test_impl(ctx):
    env = analysistest.begin(ctx)
    script = action_of(env, "FileWrite").content
    models = "\"$runfiles\"/'%s/tests/rules/models/" % ctx.workspace_name
    for word in [
        "profile",
        "'--label=//tests/rules/models:mlp_mps'",
        "--pte=%smlp_mps.pte'" % models,
        "--program=%smlp.pt2'" % models,
        "--baseline=%smlp_vulkan.pte'" % models,
        "--baseline-debug=%smlp_vulkan.debug.json'" % models,
        "--run-under=%smlp.py'" % models,
        "--runner=%smlp_samples.py'" % models,
        "--benchmark",
        "'--clock=cpu'",
        "'--item=images'",
        "'--items-per-call=2'",
        "'--maximum-ratio=1.05'",
        "'--run-under-argument=-cpu'",
        "'--run-under-argument=max'",
        "'--runs=7'",
    ]:
        asserts.true(env, (" %s " % word) in script, "%s is not in\n%s" % (word, script))
    for flag in ["--all-threads", "--method=", "--rounds="]:
        asserts.false(env, flag in script, "%s is in\n%s" % (flag, script))
    files = names_of(analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files)
    for name in ["mlp.py", "mlp_mps.pte", "mlp_samples.py", "mlp_vulkan.debug.json", "mlp_vulkan.pte"]:
        asserts.true(env, name in files, name + " is not in the runfiles")
    return analysistest.end(env)

_benchmark_test = analysistest.make(_benchmark_test_impl)

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
    program_benchmark(
        name = "benchmark_of_mps",
        baseline = "//tests/rules/models:mlp_vulkan",
        clock = "cpu",
        item = "images",
        items_per_call = 2,
        maximum_ratio = "1.05",
        program = "//tests/rules/models:mlp_mps",
        run_under = "//tests/rules/models:mlp.py",
        run_under_arguments = ["-cpu", "max"],
        runner = "//tests/rules/models:mlp_samples.py",
        runs = 7,
    )
    _benchmark_test(
        name = name + "_benchmark",
        size = "small",
        target_under_test = "benchmark_of_mps",
    )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, case) for case in runners] + [name + "_benchmark"],
    )
