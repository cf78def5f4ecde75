# SPDX-License-Identifier: Apache-2.0
"""A model of timm's, with wheels from a lock that has all its dependencies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from consumer_workspace import consumer_bazel
from nested_bazel import NestedBazel


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedBazel]:
    with consumer_bazel(tmp_path_factory.mktemp("consumer")) as bazel:
        yield bazel


def test_a_model_of_timm(consumer: NestedBazel) -> None:
    consumer.run("test", "//timm:resnet_portable_test")
    site = consumer.output_user_root.glob("*/external/timm_wheels/site-packages/*")
    installed = {path.name.split("-")[0] for path in site}
    assert {"timm", "torchvision"} <= installed
    assert installed.isdisjoint({"numpy", "torch"}), "the compiler's"


def test_a_library_for_gpus(consumer: NestedBazel) -> None:
    declaration = consumer.workspace / "WORKSPACE"
    text = declaration.read_text()
    declaration.write_text(text.replace('"torchvision/*.so"', '"torchvision/no.so"'))
    try:
        refused = consumer.attempt("build", "@timm_wheels//:lib")
    finally:
        declaration.write_text(text)
    assert "error DC016" in refused.stderr
    assert (
        "  torchvision/_C.so needs libtorch_cuda.so, which torch does not have on the CPU" in refused.stderr
    )
