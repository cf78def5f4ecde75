# SPDX-License-Identifier: Apache-2.0
"""`DelegateMappingBuilder` against the peer's: for any sequence of calls the same map, or both raise."""

from __future__ import annotations

from typing import Any

from executorch.exir.backend.utils import DelegateMappingBuilder as PeerBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import Graph, Node

from delegatec.delegation import DelegateMappingBuilder
from delegatec.diagnostics import DelegatecError

HANDLE = st.none() | st.integers(1, 6)


def _node(handle: int | None) -> Node:
    node = Graph().placeholder("x")
    if handle is not None:
        node.meta["debug_handle"] = handle
    return node


NODE = HANDLE.map(_node)


def _calls(identifiers: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Calls by keyword; some pass both nodes and handles, or neither."""
    call = st.fixed_dictionaries(
        {},
        optional={
            "nodes": st.none() | NODE | st.lists(NODE, max_size=4),
            "handles": HANDLE | st.lists(HANDLE, max_size=4),
            "identifier": st.none() | identifiers,
        },
    )
    return st.lists(call, max_size=6)


def _run(builder: Any, calls: list[dict[str, Any]]) -> list[Any]:
    """Returns the result of each call and the final map, up to the first exception."""
    seen: list[Any] = []
    for call in calls:
        try:
            seen.append(builder.insert_delegate_mapping_entry(**call))
        except DelegatecError:
            return [*seen, "refused"]
        except Exception as error:  # noqa: BLE001 - the peer does not have a separate exception type
            assert type(error) is Exception, error
            return [*seen, "refused"]
    return [*seen, list(builder.get_delegate_mapping().items())]


@settings(max_examples=500, deadline=None, derandomize=True)
@given(
    st.booleans(),
    st.one_of(_calls(st.integers(-1, 3)), _calls(st.text("ab", max_size=2))),
)
def test_the_same_map_or_both_raise(generated: bool, calls: list[dict[str, Any]]) -> None:
    assert _run(DelegateMappingBuilder(generated), calls) == _run(PeerBuilder(generated), calls)


def test_the_comparison_covers_maps_and_exceptions() -> None:
    good = [{"handles": [2, None, 1], "identifier": "a"}]
    assert _run(DelegateMappingBuilder(), good) == _run(PeerBuilder(), good) == ["a", [("a", (1, 2))]]
    bad = [*good, *good]
    assert _run(DelegateMappingBuilder(), bad) == _run(PeerBuilder(), bad) == ["a", "refused"]
