# SPDX-License-Identifier: Apache-2.0
"""Identifiers of C++ for names of Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Final

# fmt: off
_KEYWORDS: Final = frozenset({
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return",
    "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
    "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
    "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
    "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq",
})
# fmt: on


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Returns a different identifier for each name, as similar as possible.

    Args:
        names: the names.
        taken: identifiers that none of them may be.
    """
    used, found = set(taken), list[str]()
    for name in names:
        plain = identifier(name)
        if plain in used:
            plain = next(numbered for i in count(1) if (numbered := f"{plain}_{i}") not in used)
        used.add(plain)
        found.append(plain)
    return found


def identifier(name: str) -> str:
    """Returns an identifier that no C++ implementation reserves."""
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_")
    if not plain or plain[0].isdigit():
        plain = f"value_{plain}".rstrip("_")
    return f"{plain}_" if plain in _KEYWORDS else plain


def type_name(name: str) -> str:
    """Returns a name in the style of types, such as "GetImage" for "get_image"."""
    return "".join(part[:1].upper() + part[1:] for part in identifier(name).split("_"))
