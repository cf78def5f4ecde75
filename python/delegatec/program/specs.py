# SPDX-License-Identifier: Apache-2.0
"""The pytrees of a method's arguments and results, as text."""

from __future__ import annotations

import json

from torch.utils._pytree import TreeSpec, treespec_dumps


def spec_text(spec: TreeSpec) -> str:
    """A pytree as JSON, which `torch.utils._pytree.treespec_loads` reads."""
    try:
        return treespec_dumps(spec)
    except NotImplementedError:
        # a container that was registered without a serialised name
        return json.dumps(str(spec))
