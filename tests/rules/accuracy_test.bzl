# SPDX-License-Identifier: Apache-2.0
"""What a `program_accuracy_test` runs."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "program_accuracy_test")
load(":actions.bzl", "action_of", "names_of")

def _accuracy_test_impl(ctx):
    env = analysistest.begin(ctx)
    script = action_of(env, "FileWrite").content
    for word in [
        "accuracy",
        "--baseline=\"$runfiles\"/'%s/tests/rules/models/mlp_vulkan.pte'" % ctx.workspace_name,
        "--dataset=\"$runfiles\"/'%s/tests/rules/accuracy.safetensors'" % ctx.workspace_name,
        "'--floor=-0.5'",
        "'--label=//tests/rules:accuracy_of_mps'",
        "'--maximum-loss=1e-2'",
        "'--metric=metrics:top1'",
        "'--metric-over=dataset'",
        "--pte=\"$runfiles\"/'%s/tests/rules/models/mlp_mps.pte'" % ctx.workspace_name,
    ]:
        asserts.true(env, (" %s " % word) in script, "%s is not in\n%s" % (word, script))
    for flag in ["--dataset-entry", "--method=", "--runtime"]:
        asserts.false(env, flag in script, "%s is in\n%s" % (flag, script))
    files = names_of(analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files)
    for name in ["accuracy.safetensors", "activation.py", "mlp_mps.pte", "mlp_vulkan.pte"]:
        asserts.true(env, name in files, name + " is not in the runfiles")
    return analysistest.end(env)

_accuracy_test = analysistest.make(_accuracy_test_impl)

def accuracy_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    native.genrule(
        name = name + "_dataset",
        outs = ["accuracy.safetensors"],
        cmd = "touch $@",
        tags = ["manual"],
    )
    program_accuracy_test(
        name = "accuracy_of_mps",
        baseline = "//tests/rules/models:mlp_vulkan",
        dataset = "accuracy.safetensors",
        floor = "-0.5",
        maximum_loss = "1e-2",
        metric = "metrics:top1",
        metric_over = "dataset",
        program = "//tests/rules/models:mlp_mps",
        tags = ["manual"],
        deps = ["//tests/rules/models:activation"],
    )
    _accuracy_test(
        name = name + "_arguments",
        size = "small",
        target_under_test = ":accuracy_of_mps",
    )
    native.test_suite(
        name = name,
        tests = [":" + name + "_arguments"],
    )
