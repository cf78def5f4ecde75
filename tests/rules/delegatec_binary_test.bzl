# SPDX-License-Identifier: Apache-2.0
"""The runfiles of the compiler's executable, whose changes restart a worker."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load(":actions.bzl", "external_path")

def _worker_key_test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    files = [file.short_path for file in target[DefaultInfo].default_runfiles.files.to_list()]
    for path in [
        external_path(Label("@delegatec_pip_compiler//:site-packages.manifest")),
        external_path(Label("@delegatec_python//:bin/python3")),
        external_path(Label("@delegatec_python//:python.manifest")),
        "python/delegatec/__main__.py",
        "python/delegatec/backends/__init__.py",
        "python/delegatec/backends/common/partitioner.py",
        "python/delegatec/cli/worker.py",
        "python/delegatec/delegation/lowering/to_backend.py",
        "schemas/delegatec_schemas/program.py",
    ]:
        asserts.true(env, path in files, "%s is not in the worker's key" % path)

    # The sources of backends are inputs of the actions that use them.
    for path in files:
        is_core = not path.startswith("python/delegatec/backends/") or path.split("/")[3] in ["__init__.py", "common"]
        asserts.true(env, is_core, "%s is in the worker's key" % path)

    # Bazel would hash all of torch for each request.
    asserts.false(env, external_path(Label("@delegatec_pip_compiler//:site-packages")) in files)
    return analysistest.end(env)

_worker_key_test = analysistest.make(_worker_key_test_impl)

def delegatec_binary_tests(name):
    """Declares the tests.

    Args:
        name: name of the suite.
    """
    _worker_key_test(
        name = name + "_worker_key",
        size = "small",
        target_under_test = "//python/delegatec:delegatec_bin",
    )
    native.test_suite(
        name = name,
        tests = [name + "_worker_key"],
    )
