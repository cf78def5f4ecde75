# SPDX-License-Identifier: Apache-2.0
"""`selected_operators.yaml` is what the peer's own tool reads from our programs, and its tools accept it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import executorch.kernels.portable
import pytest
import torch
import yaml
from executorch.codegen.tools import gen_all_oplist, gen_oplist, gen_selected_op_variants
from torch.export import Dim, export
from torchgen.selective_build.selector import SelectiveBuilder

from delegatec.edge.kernels import KERNELS, OPTIMIZED, PRIMITIVES
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.report.needs import RuntimeNeeds, needs_of
from delegatec.report.selected_operators import selected_operators

_LIBRARY: Final = Path(executorch.kernels.portable.__path__[0])


class Mixed(torch.nn.Module):
    """Operators of several dtypes, lists, gaps, a size, and a part that MPS lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(4, dtype=torch.int32))

    def forward(self, x: torch.Tensor, i: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(self.layer(x))
        z = torch.cumsum(y.double(), 1)
        self.state.add_(1)
        return (
            torch.cat([y, y]),
            torch.cat([i, i]) + 1,
            y[:, i],
            torch.stack(torch.split(h, 1)) * 2,
            z.to(torch.bfloat16),
            (z > 0).any(),
            y.reshape(x.shape[0] * 4),
            self.state * 2,
        )


_IMAGE: Final = torch.rand(1, 3, 8, 8).to(memory_format=torch.channels_last)
_MIXED: Final = (torch.rand(3, 4), torch.tensor([1, 0]), torch.rand(2, 3, dtype=torch.float16))
_DYNAMIC: Final = ({0: Dim("batch", min=2, max=8)}, None, None)
_CONVOLUTION: Final = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Hardswish())

# Name -> module, examples, sizes that vary, backends.
CASES: Final[dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...], Any, str]]] = {
    "portable": (Mixed(), _MIXED, None, "portable"),
    "portable_dynamic": (Mixed(), _MIXED, _DYNAMIC, "portable"),
    "mixed": (Mixed(), _MIXED, None, "mps"),
    "mixed_dynamic": (Mixed(), _MIXED, _DYNAMIC, "vulkan"),
    "channels_last": (_CONVOLUTION, (_IMAGE,), None, "mps"),
    "mps": (torch.nn.Linear(4, 4), (torch.rand(2, 4),), None, "mps"),
    "tosa": (torch.nn.Linear(4, 4), (torch.rand(2, 4),), None, "tosa"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The programs of the cases."""
    folder = tmp_path_factory.mktemp("programs")
    found = {name: folder / f"{name}.pte" for name in CASES}
    for name, (module, inputs, sizes, backend) in CASES.items():
        exported = export(module.eval(), inputs, dynamic_shapes=sizes)
        with open(found[name], "wb") as file:
            write_program(lower({"forward": exported}, backend).emitted, file)
    return found


def _needs(path: Path) -> RuntimeNeeds:
    return needs_of(read_program(path))


@pytest.fixture
def theirs(tmp_path: Path) -> Callable[[Path], dict[str, Any]]:
    """Returns what the peer's tool reads from a program."""

    def read(program: Path) -> dict[str, Any]:
        output = tmp_path / "theirs.yaml"
        gen_oplist.main([f"--output_path={output}", f"--model_file_path={program}"])
        found: dict[str, Any] = yaml.safe_load(output.read_text())
        return found

    return read


@pytest.mark.parametrize("name", CASES)
def test_the_peer_reads_the_same(
    programs: dict[str, Path], theirs: Callable[[Path], dict[str, Any]], name: str
) -> None:
    needs = _needs(programs[name])
    assert yaml.safe_load(selected_operators({str(programs[name]): needs})) == theirs(programs[name])
    assert bool(needs.kernels) == (name not in ("mps", "tosa"))
    if name.startswith("portable"):
        dtypes = {each.split(";")[0] for keys in needs.operators.values() for each in _tensors(keys)}
        assert {"3", "4", "5", "6", "7", "11", "15"} <= dtypes, dtypes
    if name == "portable_dynamic":
        assert set(needs.operators) & PRIMITIVES


def test_the_peer_merges_the_same(programs: dict[str, Path], tmp_path: Path) -> None:
    needs = {name: _needs(path) for name, path in programs.items()}
    files = []
    for name, each in needs.items():
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(selected_operators({name: each}))
    (tmp_path / "list").write_text("\n".join(map(str, files)))
    gen_all_oplist.main([f"--model_file_list_path=@{tmp_path / 'list'}", f"--output_dir={tmp_path}"])
    merged = SelectiveBuilder.from_yaml_path(str(tmp_path / "selected_operators.yaml"))
    ours = SelectiveBuilder.from_yaml_str(selected_operators(needs))
    assert ours.et_kernel_metadata == {name: sorted(k) for name, k in merged.et_kernel_metadata.items()}
    assert ours.operators.keys() == merged.operators.keys()


def test_these_kernels_are_registered_only(programs: dict[str, Path], tmp_path: Path) -> None:
    needs = {name: _needs(path) for name, path in programs.items()}
    (tmp_path / "selected_operators.yaml").write_text(selected_operators(needs))
    selector = SelectiveBuilder.from_yaml_path(str(tmp_path / "selected_operators.yaml"))
    selected = {name for name in _portable() if selector.is_operator_selected(name)}
    kernels = {name for each in needs.values() for name in each.kernels}
    assert selected == kernels - OPTIMIZED and len(selected) > 10
    assert all(selector.et_get_selected_kernels(name, ["default"]) == ["default"] for name in selected)
    assert "aten::linear.out" in kernels

    gen_selected_op_variants.write_selected_op_variants(
        str(tmp_path / "selected_operators.yaml"), str(tmp_path)
    )
    header = (tmp_path / "selected_op_variants.h").read_text()
    assert all(f'compare("{name.removeprefix("aten::")}")' in header for name in kernels)
    assert "ScalarType::BFloat16" in header and "ScalarType::Half" in header


def test_kernels_that_the_portable_library_lacks() -> None:
    assert KERNELS - PRIMITIVES - _portable() == OPTIMIZED


def test_nothing_is_selected_without_kernels(programs: dict[str, Path]) -> None:
    needs = {name: _needs(programs[name]) for name in ("mps", "tosa")}
    selector = SelectiveBuilder.from_yaml_str(selected_operators(needs))
    assert selector.operators == {} and not selector.include_all_operators


def _portable() -> set[str]:
    """Returns the kernels of the portable library."""
    entries = [
        each
        for file in ("functions.yaml", "et_copy_ops.yaml")
        for each in yaml.safe_load((_LIBRARY / file).read_text())
    ]
    names = [each.get("op") or each["func"].partition("(")[0] for each in entries]
    return {name if "::" in name else f"aten::{name}" for name in names}


def _tensors(keys: tuple[str, ...]) -> list[str]:
    return [each for key in keys if "/" in key for each in key.split("/")[1].split("|")]
