# SPDX-License-Identifier: Apache-2.0
"""`pytest_test`: a test whose files pytest runs."""

_MAIN = Label("//rules/private/testing:pytest_main.py")
_PLUGIN = Label("//rules/private/testing:verified_passes.py")
_PYTEST = Label("@delegatec_pip_test//:lib")

def pytest_test(name, srcs, deps = [], data = [], tags = [], timeout = "long", shard_count = None, **kwargs):
    """A test that runs its sources under pytest, each test case in the report that Bazel keeps.

    Bazel's sharding, `--test_filter` (pytest's -k), temporary folder and coverage work as they do elsewhere.
    No variable of the host reaches the test, and its threads are bounded, so that tests can run side by side.

    Args:
        name: the target's name.
        srcs: the test files; a `conftest.py` among them is not run itself.
        deps: libraries that they import. Pytest and hypothesis need not be named.
        data: files that they read; the package bazel-runfiles finds them.
        tags: as of every target.
        timeout: as of every test. It is to be eight times what the test takes on an idle machine, or more: the default is
            for two minutes.
        shard_count: into how many processes the test cases are dealt out.
        **kwargs: other attributes of a py_test.
    """
    native.py_test(
        name = name,
        srcs = srcs + [_MAIN, _PLUGIN],
        args = ["$(rootpath %s)" % source for source in srcs if not source.endswith("conftest.py")],
        data = data,
        main = _MAIN,
        python_version = "PY3",
        shard_count = shard_count,
        srcs_version = "PY3",
        tags = tags,
        timeout = timeout,
        deps = deps + [_PYTEST],
        **kwargs
    )
