# SPDX-License-Identifier: Apache-2.0
"""`pytest_test`: a test that runs pytest."""

load("@rules_python//python:defs.bzl", "py_test")

_MAIN = Label("//rules/private/testing:pytest_main.py")
_PLUGINS = Label("//rules/private/testing:plugins")
_PYTEST = Label("@delegatec_pip_test//:lib")

def pytest_test(name, srcs, deps = [], data = [], tags = [], timeout = "long", shard_count = None, **kwargs):
    """Declares a test that runs its sources under pytest and reports each test case.

    Bazel's sharding, `--test_filter` (pytest's -k), temporary directory and coverage are supported. The test does not
    inherit variables of the host, and the number of its threads is bounded, so that tests can run in parallel.

    Args:
        name: the target's name.
        srcs: the test files, and `conftest.py`.
        deps: libraries that they import, besides pytest and hypothesis.
        data: files that they read; the package bazel-runfiles finds them.
        tags: as for every target.
        timeout: as for every test: at least eight times the duration on an idle machine. The default fits two minutes.
        shard_count: the number of processes among which the test cases are distributed.
        **kwargs: other attributes of a py_test.
    """
    py_test(
        name = name,
        srcs = srcs + [_MAIN],
        args = ["$(rootpath %s)" % source for source in srcs if not source.endswith("conftest.py")],
        data = data,
        main = _MAIN,
        python_version = "PY3",
        shard_count = shard_count,
        srcs_version = "PY3",
        tags = tags,
        timeout = timeout,
        deps = deps + [_PLUGINS, _PYTEST],
        **kwargs
    )

def nested_bazel_test(name, tags = [], timeout = "eternal", **kwargs):
    """Declares a `pytest_test` that runs another Bazel, which builds what it needs: alone, and outside of the sandbox.

    Args:
        name: the target's name.
        tags: further ones.
        timeout: as for every test.
        **kwargs: other arguments of `pytest_test`.
    """
    pytest_test(
        name = name,
        tags = ["exclusive", "external", "local"] + tags,
        timeout = timeout,
        **kwargs
    )
