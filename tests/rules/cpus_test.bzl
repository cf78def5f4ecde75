# SPDX-License-Identifier: Apache-2.0
"""In which runtimes a `program_test` runs its program."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:defs.bzl", "program_test")
load(":actions.bzl", "action_of", "names_of")

def _runtimes_test_impl(ctx):
    env = analysistest.begin(ctx)
    script = action_of(env, "FileWrite").content
    found = [word.strip("'") for word in script.split(" ") if word.startswith("'--runtime")]
    asserts.equals(env, ctx.attr.flags, found)
    files = names_of(analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files)
    asserts.equals(env, "--runtime=executorch_runner.arm:MAX" in ctx.attr.flags, "qemu-aarch64" in files or "missing.txt" in files)
    asserts.equals(env, len(found) > 0, "runtime.py" in files)
    return analysistest.end(env)

_runtimes_test = analysistest.make(_runtimes_test_impl, attrs = {"flags": attr.string_list()})

# Name of a case -> CPUs, whether the test has a runtime, flags.
_CASES = {
    "no_cpu": ([], False, []),
    "one_cpu": (["max"], False, ["--runtime=executorch_runner.arm:MAX"]),
    "two_cpus_and_a_runtime": (["cortex-a53", "max"], True, [
        "--runtime=executorch_runner:RUNTIME",
        "--runtime=executorch_runner.arm:CORTEX_A53",
        "--runtime=executorch_runner.arm:MAX",
    ]),
}

def cpus_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    for case, (cpus, has_runtime, flags) in _CASES.items():
        program_test(
            name = "runs_on_" + case,
            cpus = cpus,
            program = "//tests/rules/models:mlp_mps",
            runtime = "//runtime:cpp" if has_runtime else None,
            tags = ["manual"],
        )
        _runtimes_test(
            name = "%s_%s" % (name, case),
            size = "small",
            flags = flags,
            target_under_test = ":runs_on_" + case,
        )
    native.test_suite(
        name = name,
        tests = [":%s_%s" % (name, case) for case in _CASES],
    )
