# SPDX-License-Identifier: Apache-2.0
"""Archives that would run their author's code in torch's reader, or be misread, are rejected, and none runs.

Every attack writes a file, the canary. The first test checks that the attack on pickle works.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.frontend.pt2.expressions import parse_expression
from delegatec.frontend.pt2.testing import PROGRAM, edited, members, write

SAMPLE = "data/sample_inputs/model.pt"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, *, scale: float) -> dict[str, torch.Tensor]:
        return {"y": self.linear(x).relu() * scale}


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return exec, (f"open({self.path!r}, 'w').close()",)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.pt2"
    rows = torch.export.Dim("rows", min=2, max=8)
    shapes = {"x": {0: rows}, "scale": None}
    archive.save(export(Model(Net(), (torch.ones(3, 4),), {"scale": 0.5}, dynamic_shapes=shapes)), str(path))
    return path


@pytest.fixture
def canary(tmp_path: Path) -> str:
    return str(tmp_path / "canary")


def code(canary: str) -> str:
    return f"__import__('pathlib').Path({canary!r}).touch()"


def rejected(path: str, canary: str, *words: str) -> None:
    """Checks that reading a file ends in a short diagnostic, and runs nothing."""
    with pytest.raises(DelegatecError) as caught:
        archive.load(path)
    (problem,) = caught.value.diagnostics
    assert problem.code in ("DC120", "DC121")
    assert len(problem.message) < 300 and problem.message.isprintable()
    for word in words:
        assert word in problem.message
    assert not os.path.exists(canary)


def nested_pickle(canary: str) -> bytes:
    """`torch.save` of bytes that are not allowed by `weights_only`, with a pickle that runs code."""
    return pickle.dumps(Canary(canary))


def saved(canary: str) -> bytes:
    buffer = io.BytesIO()
    torch.save(((Canary(canary),), {}), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("attack", [nested_pickle, saved])
def test_pickled_example_inputs_are_never_opened(
    good: Path, canary: str, attack: Callable[[str], bytes]
) -> None:
    content = members(good)
    content[SAMPLE] = attack(canary)
    path = write(good.with_name("bad.pt2"), content)
    program = archive.load(path).methods["forward"]
    assert program.example_inputs is not None and torch.equal(program.example_inputs[0][0], torch.ones(3, 4))
    assert not os.path.exists(canary)
    # The file of a trusted source is read by torch, which runs it.
    with contextlib.suppress(DelegatecError):
        archive.load(path, trusted=True)
    assert os.path.exists(canary)


def sizes(document: Any) -> list[Any]:
    values = document["graph_module"]["graph"]["tensor_values"].values()
    return [size for value in values for size in value["sizes"] if "as_expr" in size]


def test_powers_inside_each_other() -> None:
    tokens = "Add(Integer(1), Pow(FloorDiv(Symbol('s0'), Integer(16)), Integer(2)))"
    assert str(parse_expression(f"Pow({tokens}, Integer(2))")) == "(((s0//16))**2 + 1)**2"


@pytest.mark.parametrize(
    "expression",
    [
        "CODE",
        "9**9**9**9",
        "factorial(10**7)",
        "Pow(Integer(9), Pow(Integer(9), Integer(99)))",
        "Pow(Symbol('s0'), Integer(1000000))",
        "Mul(Integer(9000000000), Pow(" * 20 + "Symbol('s0')" + ", Integer(8)))" * 20,
        "Pow(" * 20 + "Symbol('s0')" + ", Integer(8))" * 20,
        "Integer(" + "9" * 5000 + ")",
        "Symbol('s0').__class__",
        "(lambda: 1)()",
        "Add(" * 3000 + "Integer(1)" + ")" * 3000,
        "-" * 10_000 + "1",
        "Max(" + "Symbol('s1')," * 5000 + ")",
        "Symbol('x; import os')",
        "Lambda(Symbol('s0'), Integer(1))",
        "Integer(1, evaluate=True)",
        "Mul(Integer(2), true)",
        "FloorDiv(Integer(1), Integer(0))",
        "Mod(Symbol('s0'), Integer(0))",
        "Float('1e999')",
        "Float('inf')",
        "Float('nan')",
        "FloatPow(Float('1e300'), Integer(99))",
        "oo",
        "",
    ],
)
def test_sizes_are_not_evaluated(good: Path, canary: str, expression: str) -> None:
    def change(document: Any) -> None:
        sizes(document)[0]["as_expr"]["expr_str"] = code(canary) if expression == "CODE" else expression

    rejected(edited(good, PROGRAM, change), canary)


def in_tree(change: Callable[[Any], None]) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        signature = document["graph_module"]["module_call_graph"][0]["signature"]
        protocol, tree = json.loads(signature["out_spec"])
        change(tree)
        signature["out_spec"] = json.dumps([protocol, tree])

    return apply


@pytest.mark.parametrize(
    "node",
    [
        {"type": "collections.defaultdict", "context": json.dumps({"default_factory_module": "evil"})},
        {"type": "collections.namedtuple", "context": json.dumps({"class_name": "evil.Evil"})},
        {"type": "builtins.dict", "context": json.dumps([{"__enum__": True, "fqn": "evil:E", "name": "a"}])},
        {"type": "builtins.dict", "context": json.dumps([["y"]])},
        {"type": "evil.Tree", "context": "null"},
        {"type": "torch.Size", "context": "null"},
    ],
)
def test_trees_import_nothing(
    good: Path, canary: str, node: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    good.with_name("evil.py").write_text(code(canary))
    monkeypatch.syspath_prepend(str(good.parent))
    rejected(edited(good, PROGRAM, in_tree(lambda tree: tree.update(node))), canary, "out_spec")


def set_guards(document: Any, canary: str) -> None:
    document["guards_code"] = [code(canary)]


def set_source(document: Any, canary: str) -> None:
    for node in document["graph_module"]["graph"]["nodes"]:
        node["metadata"] |= {"source_fn_stack": "a,torch.os.abort", "from_node": "[", "torch_fn": "a;b"}


@pytest.mark.parametrize("change", [set_guards, set_source])
def test_guards_and_unused_metadata_are_ignored(
    good: Path, canary: str, change: Callable[[Any, str], None]
) -> None:
    program = archive.load(edited(good, PROGRAM, lambda document: change(document, canary))).methods[
        "forward"
    ]
    assert program.module()(torch.ones(2, 4), scale=0.5)["y"].shape == (2, 2)
    assert not os.path.exists(canary)


def first_node(document: Any) -> Any:
    return document["graph_module"]["graph"]["nodes"][0]


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("torch.ops.aten.from_file.default", "files or processes"),
        ("torch.ops.debugprims.load_tensor.default", "files or processes"),
        ("torch.ops.c10d.barrier.default", "files or processes"),
        ("torch.os.system", "not an operator"),
        ("torch.load", "not an operator"),
        ("torch.ops.load_library", "not an operator"),
        ("torch.ops.higher_order.triton_kernel_wrapper_functional", "not an operator"),
        ("torch.ops.higher_order.flat_apply.default", "does not support"),
        ("_operator.attrgetter", "not an operator"),
        ("math.factorial", "not an operator"),
        ("builtins.exec", "not an operator"),
        ("#extension:evil", "not an operator"),
        ("torch.ops.aten.__class__.default", "not registered"),
        ("torch.ops.aten.linear.__class__", "not registered"),
        ("torch.ops.evil.run.default", "not registered"),
        ("torch.ops.__class__.mro.default", "not registered"),
    ],
)
def test_only_registered_operators_are_called(good: Path, canary: str, target: str, word: str) -> None:
    rejected(edited(good, PROGRAM, lambda document: first_node(document).update(target=target)), canary, word)


def rename_value(document: Any, canary: str) -> None:
    text = json.dumps(document["graph_module"]["graph"])
    document["graph_module"]["graph"] = json.loads(
        text.replace('"linear"', json.dumps(f"a={code(canary)};b"))
    )


def rename_argument(document: Any, canary: str) -> None:
    document["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [
        f"x={code(canary)}",
        "scale",
    ]


def rename_keyword(document: Any, canary: str) -> None:
    signature = document["graph_module"]["module_call_graph"][0]["signature"]
    signature["in_spec"] = signature["in_spec"].replace("scale", "x=1; import os")


def rename_weight(document: Any, canary: str) -> None:
    text = json.dumps(document["graph_module"]["signature"])
    name = json.dumps(f'linear.a"); {code(canary)}; ("')
    document["graph_module"]["signature"] = json.loads(text.replace('"linear.weight"', name))


def rename_input(document: Any, canary: str) -> None:
    document["graph_module"]["graph"]["inputs"][0]["as_tensor"]["name"] = "class"


@pytest.mark.parametrize(
    "change", [rename_value, rename_argument, rename_keyword, rename_weight, rename_input]
)
def test_names_do_not_become_code(good: Path, canary: str, change: Callable[[Any, str], None]) -> None:
    rejected(edited(good, PROGRAM, lambda document: change(document, canary)), canary)


def meta_of(document: Any, name: str) -> Any:
    return document["graph_module"]["graph"]["tensor_values"][name]


def other_shape(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(sizes=[{"as_int": 1}, {"as_int": 1}])


def other_dtype(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(dtype=5)


def other_strides(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(strides=[{"as_int": 1}, {"as_int": 2}])


def other_device(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(device={"type": "cuda", "index": 0})


def huge(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(sizes=[{"as_int": 2**40}, {"as_int": 2**40}])


def bool_as_size(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(sizes=[{"as_int": True}, {"as_int": 4}])


def unknown_dtype(document: Any) -> None:
    meta_of(document, "p_linear_weight").update(dtype=99)


@pytest.mark.parametrize(
    "change", [other_shape, other_dtype, other_strides, other_device, huge, bool_as_size, unknown_dtype]
)
def test_weights_are_those_of_the_graph(good: Path, canary: str, change: Callable[[Any], None]) -> None:
    rejected(edited(good, PROGRAM, change), canary)


def test_the_message_says_what_differs(good: Path, canary: str) -> None:
    words = "linear.weight is float32[2, 4]; the graph says float32[1, 1]"
    rejected(edited(good, PROGRAM, other_shape), canary, words)


def test_results_are_those_of_the_operators(good: Path, canary: str) -> None:
    def change(document: Any) -> None:
        graph = document["graph_module"]["graph"]
        for value in graph["tensor_values"].values():
            for size in value["sizes"] + value["strides"]:
                if "as_expr" in size:
                    del size["as_expr"]
                    size["as_int"] = 3
        graph["tensor_values"]["relu"]["sizes"][1]["as_int"] = 5

    rejected(edited(good, PROGRAM, change), canary)


WEIGHTS = "data/weights/model_weights_config.json"


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("storage_offset", {"as_int": 1}, "bytes of"),
        ("storage_offset", {"as_int": -1}, "storage_offset"),
        ("sizes", [{"as_int": 2**62}, {"as_int": 4}], "bytes of"),
        ("strides", [{"as_int": -4}, {"as_int": 1}], "stride"),
        ("sizes", [{"as_int": 2}], "do not match"),
        ("dtype", 8, "bytes of"),
        ("layout", 1, "not strided"),
    ],
)
def test_weights_are_inside_of_their_member(good: Path, canary: str, key: str, value: Any, word: str) -> None:
    def change(document: Any) -> None:
        document["config"]["linear.weight"]["tensor_meta"][key] = value

    rejected(edited(good, WEIGHTS, change), canary, word)


def test_a_weight_does_not_repeat_its_bytes_without_limit(good: Path, canary: str) -> None:
    def change(document: Any) -> None:
        meta = document["config"]["linear.weight"]["tensor_meta"]
        meta.update(sizes=[{"as_int": 2**31}, {"as_int": 4}], strides=[{"as_int": 0}, {"as_int": 1}])

    rejected(edited(good, WEIGHTS, change), canary, "elements in")


def test_pickled_weights_and_objects_are_rejected(good: Path, canary: str) -> None:
    def pickled(document: Any) -> None:
        document["config"]["linear.weight"]["use_pickle"] = True

    def objects(document: Any) -> None:
        document["graph_module"]["graph"]["custom_obj_values"] = {"a": {"name": "a", "class_fqn": "evil"}}

    rejected(edited(good, WEIGHTS, pickled), canary, "pickled")
    rejected(edited(good, PROGRAM, objects), canary, "custom objects")


@pytest.mark.parametrize(
    ("member", "content", "word"),
    [
        ("byteorder", b"big", "byteorder is not little"),
        ("archive_format", b"zip", "archive_format is not pt2"),
        (PROGRAM, b"[" * 100_000, "is not JSON"),
        (PROGRAM, b"\xff", "is not JSON"),
        (PROGRAM, b"[]", "is not an object"),
        (PROGRAM, b'{"schema_version": {"major": ' + b"9" * 5000 + b"}}", "is not JSON"),
    ],
)
def test_other_members(good: Path, canary: str, member: str, content: bytes, word: str) -> None:
    rejected(write(good.with_name("bad.pt2"), {**members(good), member: content}), canary, word)


def test_messages_have_no_control_characters(good: Path, canary: str) -> None:
    target = "\x1b[31m\x07evil\r\n" + "x" * 10_000
    rejected(edited(good, PROGRAM, lambda document: first_node(document).update(target=target)), canary)


def test_the_remedy_names_the_flag(good: Path) -> None:
    path = edited(good, PROGRAM, lambda document: first_node(document).update(target="torch.load"))
    with pytest.raises(DelegatecError, match="--trusted"):
        archive.load(path)


def test_a_trusted_archive_is_read_by_torch(good: Path) -> None:
    program = archive.load(str(good), trusted=True).methods["forward"]
    assert program.module()(torch.ones(2, 4), scale=0.5)["y"].shape == (2, 2)


def test_torchs_own_archives_are_read(tmp_path: Path) -> None:
    path, module = str(tmp_path / "torch.pt2"), torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    torch.export.save(torch.export.export(module.eval(), (torch.ones(1, 4),)), path)
    program = archive.load(path).methods["forward"]
    torch.testing.assert_close(program.module()(torch.ones(1, 4)), module(torch.ones(1, 4)))
    assert program.example_inputs is None
