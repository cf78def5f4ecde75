# SPDX-License-Identifier: Apache-2.0
"""Remedies for Python code that depends on the values of tensors, by the code that reads the value."""

from __future__ import annotations

import ast
import traceback
from typing import Final

from delegatec.diagnostics import SourceLocation

DEFAULT: Final = (
    "compute both results and select with torch.where, use torch.cond, or branch on shapes or constants"
)

# Part of the path of a library's file, function in it ("" for any) -> remedy for the user's call of it.
_LIBRARIES: Final = {
    (
        "torch/distributions/",
        "",
    ): "create the distribution with validate_args=False: it checks the values of its arguments",
    (
        "torch/nn/modules/transformer.py",
        "_detect_is_causal_mask",
    ): "pass is_causal (nn.Transformer: tgt_is_causal): True with a causal mask, else False",
    (
        "torchvision/models/detection/roi_heads.py",
        "heatmaps_to_keypoints",
    ): "find the positions after the program: before export, set roi_heads.heatmaps_to_keypoints = "
    "lambda maps, boxes: (maps, maps.amax((2, 3)))",
}
# Type of the user's statement -> remedy.
_STATEMENTS: Final[dict[type[ast.AST], str]] = {
    ast.While: "use torch.while_loop, or a fixed number of iterations with torch.where",
    ast.For: "iterate a fixed number of times and select with torch.where, or use torch.while_loop",
    ast.Assert: "use torch._check for sizes, and remove checks of values",
}
_ASSIGNMENT: Final = (
    "index with a tensor of one dimension: result[index.reshape(1)] = value, or use torch.where or index_put"
)
_SCALAR: Final = (
    "keep the value in a tensor: index with tensors, or with torch.stack(items)[index] for a list"
)


def remedy(error: BaseException, location: SourceLocation | None) -> str:
    """Returns what to do about code that reads a value that is unknown during export.

    Args:
        error: the exception of torch.export.
        location: the user's line.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        for (path, function), text in _LIBRARIES.items():
            if path in code.co_filename and function in ("", code.co_name):
                return text
    line = location.text if location else ""
    if "len(" in line and "specialized integer" in str(error):
        return "use x.shape[0] instead of len(x), which makes the size a constant"
    remedies = (_remedy(statement) for statement in _statements(line))
    return next(filter(None, remedies), DEFAULT)


def _remedy(statement: ast.stmt) -> str:
    """Returns the remedy for a statement; empty if it branches, or shows no cause."""
    if isinstance(statement, (ast.Assign, ast.AugAssign)) and _assigns_item(statement):
        return _ASSIGNMENT
    if type(statement) in _STATEMENTS:
        return _STATEMENTS[type(statement)]
    inside = list(ast.walk(statement))
    if any(isinstance(node, ast.comprehension) for node in inside):
        return _STATEMENTS[ast.For]
    branches = any(isinstance(node, (ast.If, ast.IfExp, ast.BoolOp, ast.Compare)) for node in inside)
    return _SCALAR if not branches and _reads_scalar(statement) else ""


def _statements(text: str) -> list[ast.stmt]:
    """Returns the statements of a line; none if they continue on others."""
    for completed in (text, f"{text}\n pass", f"if True: pass\n{text}\n pass"):
        try:
            return ast.parse(completed).body
        except SyntaxError:
            continue
    return []


def _assigns_item(statement: ast.Assign | ast.AugAssign) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(isinstance(target, ast.Subscript) for target in targets)


def _reads_scalar(statement: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(
        (isinstance(called, ast.Name) and called.id in ("int", "float"))
        or (isinstance(called, ast.Attribute) and called.attr in ("item", "tolist"))
        for called in calls
    )
