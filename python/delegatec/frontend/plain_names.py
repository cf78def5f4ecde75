# SPDX-License-Identifier: Apache-2.0
"""Names of weights and modules that a `.pt2` can store.

A key of a ModuleDict may be any text without a dot. torch's format separates paths of modules by commas and
semicolons, and torch generates code with the names of weights.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from functools import cache
from itertools import count
from typing import Any, Final

from torch.export import ExportedProgram
from torch.fx import GraphModule

from delegatec.frontend.pt2.fields import is_qualified_name
from delegatec.frontend.pt2.metadata import SEPARATOR, parts_of

_SPECIAL: Final = re.compile(r"[^\w.@ -]")
_PLACE: Final = "_"


def adopt_plain_names(program: ExportedProgram) -> None:
    """Renames weights, and modules in the metadata of nodes, if a `.pt2` cannot store their names."""
    names = [*program.state_dict, *program.constants]
    renamed = _renamed(names)
    if renamed:
        program._state_dict = {renamed.get(key, key): value for key, value in program.state_dict.items()}
        program._constants = {renamed.get(key, key): value for key, value in program.constants.items()}
        signature = program.graph_signature
        for spec in (*signature.input_specs, *signature.output_specs):
            if spec.target in renamed:
                spec.target = renamed[spec.target]
    for module in program.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                if stack := node.meta.get("nn_module_stack"):
                    node.meta["nn_module_stack"] = _plain_stack(stack)


def _renamed(names: list[str]) -> dict[str, str]:
    """Returns the new name of each name that cannot be stored."""
    taken, found = set(names), dict[str, str]()
    for name in names:
        plain = ".".join(map(_plain_part, name.split(".")))
        if plain == name or name in found:
            continue
        new = plain if plain not in taken else next(n for i in count(1) if (n := f"{plain}_{i}") not in taken)
        taken.add(new)
        found[name] = new
    return found


def _plain_part(part: str) -> str:
    # Python's compiler normalizes identifiers.
    plain = unicodedata.normalize("NFKC", part if is_qualified_name(part) else _SPECIAL.sub(_PLACE, part))
    return plain + _PLACE if keyword.iskeyword(plain) else plain


def _plain_stack(stack: dict[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for key, (path, kind) in stack.items():
        new, entry = key, (path, kind)
        if not _is_plain(key, path, str(kind)):
            new, entry = _SPECIAL.sub(_PLACE, key), (_SPECIAL.sub(_PLACE, path), kind)
            while new in found or new in stack:
                new += _PLACE
        found[new] = entry
    return found


@cache
def _is_plain(*parts: str) -> bool:
    item = ",".join(parts)
    return SEPARATOR not in item and item.isprintable() and parts_of(item) == list(parts)
