# SPDX-License-Identifier: Apache-2.0
"""Messages of torch.export about dynamic sizes that a module does not support."""

from __future__ import annotations

import re
from typing import Final

_SIZE: Final = re.compile(r"L\['(\w+)'\]((?:\[[^\]]+\])*)\.size\(\)\[(\d+)\]")
_NAMED_SIZE: Final = re.compile(r"(\w+) = L\['\w+'\](?:\[[^\]]+\])*\.size\(\)\[\d+\]")
# Pattern of torch's text -> ours.
_TEXTS: Final = (
    (
        r"You marked (.+?) as dynamic but your code specialized it to be a constant \((\d+)\)",
        r"it fixes \1 at \2",
    ),
    (r"The values of (.+?) and (.+?) must always be equal", r"\1 and \2 must be equal"),
    (
        r"Not all values of (.+?) in the specified range (.+?) satisfy the generated guard (.+)",
        r"it does not support all values \2: it requires \3",
    ),
    (
        r"Static shape constraint of (.+?) does not match input size of (\d+), for (.+)",
        r"\3 is \2 in the example, not \1",
    ),
)
# torch.export takes the sizes 0 and 1 of an example as constants, as they broadcast.
ANOTHER_SIZE: Final = "pass example inputs whose size is at least 2 in this dimension, or leave it static"
_CONSTANT: Final = re.compile(r"it fixes \w+ at [01]$")
_DEFAULT: Final = "correct dynamic_shapes of delegatec.Model, or leave the size static"


def violation(text: str) -> tuple[str, str]:
    """Returns a module's requirements on dynamic sizes, and what to do.

    Args:
        text: of torch's exception, without colors.
    """
    text, _, rest = text.partition("Suggested fixes:")
    fixes = [line.strip() for line in rest.partition("\n\n")[0].splitlines() if " = " in line]
    lines = [line.strip(" -").rstrip(".") for line in text.splitlines() if line.strip()]
    details = [line for line in lines if not line.startswith("Constraints violated")] or lines
    detail = _NAMED_SIZE.sub(r"\1", details[0]) if details else ""
    detail = _SIZE.sub(r"dimension \3 of \1\2", detail)
    for pattern, ours in _TEXTS:
        match = re.search(pattern, detail)
        if match:
            detail = match.expand(ours)
            break
    if _CONSTANT.fullmatch(detail):
        return f"{detail}, its size in the example", ANOTHER_SIZE
    names = re.findall(r"^(\w+) = (.+)$", "\n".join(fixes), re.MULTILINE)
    if not names:
        return detail, _DEFAULT
    static = [name for name, value in names if value.isdigit()]
    others = [f"{name} = {value}" for name, value in names if not value.isdigit()]
    advice = [f"leave {' and '.join(static)} static"] if static else []
    advice += [f"in dynamic_shapes, write {', '.join(others)}"] if others else []
    return detail, "; ".join(advice)
