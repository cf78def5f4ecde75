# SPDX-License-Identifier: Apache-2.0
"""Invalid models in `delegatec export`: code, label, file and line, help, and no output file."""

from __future__ import annotations

import pytest
from problem import Problem, check
from workspace import Workspace

CASES: dict[str, list[Problem]] = {
    "not_there": [Problem("DC101", 0, ("pkg/not_there.py does not exist", "srcs"))],
    "syntax_error": [Problem("DC102", 7, ("expected ':'", "class Net(torch.nn.Module)"))],
    "undeclared_dependency": [Problem("DC103", 4, ('"layers_of_another_team"', "py_library", "deps"))],
    "late_dependency": [Problem("DC103", 6, ('"layers_of_another_team"', "deps"))],
    "import_raises": [Problem("DC104", 5, ("KeyError: 'large'",))],
    "no_entry": [Problem("DC105", 1, ('"build"', "build_model", "`entry`"))],
    "entry_is_not_callable": [Problem("DC105", 1, ("of type int", "def build()"))],
    "entry_needs_arguments": [Problem("DC105", 5, ("'width'", "default values"))],
    "entry_raises": [Problem("DC106", 8, ("RuntimeError", "in _head"))],
    "entry_exits": [Problem("DC106", 8, ("SystemExit: no model today",))],
    "not_a_model": [Problem("DC107", 7, ("of type Linear", "return delegatec.Model"))],
    "wrong_model_arguments": [
        Problem("DC108", 15, ("the class Net", "Net(...)")),
        Problem("DC108", 15, ("example_inputs", "of type Tensor", "(x,)")),
        Problem("DC108", 15, ("methods['encode'].function", "'encode'", "the name of a method")),
    ],
    "wrong_inputs": [
        Problem("DC109", 15, ("example_inputs[0]", "complex64", "view_as_real")),
        Problem("DC109", 15, ("example_inputs[1]", "of type object")),
        Problem("DC109", 15, ("example_inputs[2]['first']", "on meta", ".cpu()")),
    ],
    "inputs_do_not_fit": [Problem("DC110", 15, ("1x9 and 8x2", "inputs_do_not_fit.py:19"))],
    "wrong_number_of_inputs": [Problem("DC110", 15, ("'right'",))],
    "not_traceable": [Problem("DC111", 12, ("calls .numpy()", "in forward"))],
    "data_dependent": [Problem("DC112", 11, ("if x.sum() > 0:", "torch.where"))],
    "data_dependent_size": [Problem("DC112", 12, ("range(steps)", "torch.while_loop"))],
    "specialized": [Problem("DC113", 15, ("batch", "constant (2)", "dynamic_shapes"))],
    "shapes_of_another_model": [Problem("DC113", 15, ("['x']", "['y']"))],
    "unbounded": [
        Problem("DC114", 17, ("dimension 0 of input tokens", "max=")),
        Problem("DC114", 17, ("dimension 1 of input tokens", "max=")),
    ],
    "undeclared_data": [Problem("DC115", 11, ('"linear.safetensors"', "`data`"))],
    "missing_data": [Problem("DC115", 8, ("pkg/missing.pt does not exist",))],
    "opens_undeclared_data": [Problem("DC115", 8, ("pkg/weights.pt", "delegatec.data_path"))],
    "damaged_checkpoint": [Problem("DC116", 11, ("damaged.pt", "save_file"))],
    "wrong_checkpoint": [
        Problem("DC117", 11, ('lacks tensor "2.bias" float32[2]',)),
        Problem("DC117", 11, ('"0.weight"', "float32[4, 4]", "float32[3, 4]")),
        Problem("DC117", 11, ('"0.bias"', "float16[3]", "float32[3]")),
        Problem("DC117", 11, ('"extra" float32[1]', "unknown")),
    ],
    "training_mode": [Problem("DC118", 11, ("aten.dropout", "self.training"))],
    "weights_on_meta": [
        Problem("DC119", 20, ('"scale"', "on meta")),
        Problem("DC119", 20, ('"table"', "sparse_coo")),
    ],
    "holds_a_lowered_program": [Problem("DC119", 15, ("lowered program", ".pt2", "delegatec.lower"))],
    "not_storable": [Problem("DC119", 12, ("flex_attention", "torch cannot serialize"))],
    "two_methods": [
        Problem("DC112", 11, ("x.max() > 1",)),
        Problem("DC118", 14, ("in encode",)),
    ],
}


@pytest.mark.parametrize("model", CASES)
def test_bad_model(workspace: Workspace, model: str) -> None:
    before = workspace.files()
    result = workspace.export(model)
    check(result.text, model, f"//pkg:{model}", CASES[model])
    assert result.code == 1
    assert workspace.files() == before
