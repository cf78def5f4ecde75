# SPDX-License-Identifier: Apache-2.0
"""Known causes of exceptions in a module: torch's text -> what is wrong, and what to do."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn.utils.rnn import PackedSequence

from delegatec.diagnostics.exceptions import first_line, is_out_of_memory
from delegatec.frontend.constraints import ANOTHER_SIZE


@dataclass(frozen=True)
class Cause:
    """What is wrong with a method.

    Attributes:
        message: follows the name of the method; "{}" is the group that the text's pattern matches.
        expected: what would be valid.
        help: what to do.
        code: of the diagnostic; that of the failing step by default.
    """

    message: str
    expected: str
    help: str
    code: str = ""


_DEVICE: Final = Cause(
    "uses a device other than the CPU",
    "tensors on cpu: backends choose devices when the program runs",
    "remove cuda() and to(device), and create tensors with device=x.device",
)
_GRADIENTS: Final = Cause(
    "computes gradients", "inference only", "remove backward() and torch.autograd from the exported method"
)
PACKED: Final = Cause(
    "packs sequences of several lengths, which torch.export cannot follow",
    "tensors with a row for each sequence, padded to one length",
    "pass padded sequences to the layers without pack_padded_sequence, and mask the results by the lengths",
    "DC119",
)
_NESTED: Final = Cause(
    "uses nested tensors, which programs do not have",
    "tensors with a row for each item, padded to one size",
    "pad the items to one size, and pass a mask or the lengths",
    "DC119",
)
_CAUSES: Final = {
    r"Found <class '([\w.<>]+)'> in output": Cause(
        "returns a value of type {}",
        "tensors, Python scalars, None, and tuples, lists and dicts of these",
        "return its tensors",
        "DC119",
    ),
    r"fake tensor in the exported program constant's list": Cause(
        "makes a constant of a tensor that depends on the inputs",
        "values that torch.export can follow",
        "write x.detach() for x.data, and torch.stack for torch.tensor of tensors",
    ),
    r"\.numpy\(\) is not supported": Cause(
        "calls .numpy(), or a function of numpy, on a tensor",
        "torch operators, which torch.export can trace",
        "rewrite this line with torch operators on tensors",
    ),
    r"unsupported format string passed to FakeTensor": Cause(
        "formats the value of a tensor, which is unknown during export",
        "strings that contain shapes and constants only",
        "remove the string, or create it outside the exported method",
    ),
    r"not (?:compiled with CUDA|linked with support for|compiled with \w+ enabled)": _DEVICE,
    r"No CUDA GPUs|Found no NVIDIA driver|Expected all tensors to be on the same device": _DEVICE,
    r"does not require grad and does not have a grad_fn": _GRADIENTS,
    r"Cannot access data pointer of Tensor": Cause(
        "accesses the memory of a tensor",
        "torch operators, which torch.export can trace",
        "wrap native code in torch.library.custom_op",
    ),
    r"no fake impl registered for <CustomOpDef\(([\w:.]+)\)>": Cause(
        "calls {}, an operator without a fake implementation",
        "operators whose result torch.export can describe",
        "register one: @operator.register_fake",
    ),
    r"vmap: It looks like you're calling \.item\(\)": Cause(
        "reads a Python scalar from a tensor inside torch.vmap",
        "tensor operations",
        "keep the value in a tensor",
    ),
    r"Either your tensor may have escaped from inside a function being vmapped": Cause(
        "calls torch.vmap where torch.export cannot follow it, such as in a body of control flow",
        "torch.vmap outside of torch.cond, map, scan and while_loop",
        "write the operators for tensors with the batch dimension",
    ),
    r"is not tracked with proxy": Cause(
        "creates a size that torch.export cannot follow, as nested tensors do",
        _NESTED.expected,
        _NESTED.help,
    ),
    r"_nested_tensor|to_padded_tensor|NestedTensor": _NESTED,
    r"0/1 specialized due to hint of (\d)": Cause(
        "has a dynamic dimension of size {} in the example inputs, which torch.export takes as a constant",
        "example inputs with at least 2 in each dynamic dimension",
        ANOTHER_SIZE,
        "DC113",
    ),
    r"Boolean value of Tensor with more than one value": Cause(
        "branches on a tensor of several elements",
        "a condition of one element",
        "select elements with torch.where, or reduce the condition with any() or all()",
    ),
    r"User output (nan) is not in the correct order": Cause(
        "returns the scalar {}, which torch.export cannot store",
        "tensors, and scalars other than NaN",
        'return a tensor: torch.tensor(float("nan"))',
        "DC119",
    ),
    r"Module \[(\w+)\] is missing the required \"forward\" function": Cause(
        "calls forward() of {}, which does not define it",
        "modules with a method forward",
        "define or rename it; call the items of a ModuleList or ModuleDict one by one",
    ),
    r"maximum recursion depth exceeded": Cause(
        "is nested too deeply: its calls exceed Python's recursion limit",
        "recursion that ends",
        "end the recursion, or write nested calls as a loop; if a method calls forward, set strict = False",
    ),
}
_PATTERNS: Final = tuple((re.compile(pattern), cause) for pattern, cause in _CAUSES.items())


def cause_of(error: BaseException) -> Cause | None:
    """Returns the known cause of an exception from torch or a module, with its message completed."""
    if is_out_of_memory(error):
        return Cause(
            "needs more memory than is available", "", "make the example inputs or the model smaller"
        )
    for value in _locals(error):
        if isinstance(value, PackedSequence):
            return PACKED
        if isinstance(value, torch.Tensor) and value.is_nested:
            return _NESTED
    text = first_line(error)
    for pattern, cause in _PATTERNS:
        if match := pattern.search(text):
            found = match[1].rpartition(".")[2] if match.groups() else ""
            return Cause(cause.message.format(found), cause.expected, cause.help, cause.code)
    return None


def _locals(error: BaseException) -> Iterator[Any]:
    """Yields the variables of the frames that raised an exception: some are the cause by their type."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in list(frame.f_locals.values()):
            yield from value if type(value) in (list, tuple) else (value,)
