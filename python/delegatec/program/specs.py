# SPDX-License-Identifier: Apache-2.0
"""Text form of the pytrees of a method's arguments and results."""

from __future__ import annotations

import json

from torch.utils._pytree import TreeSpec, treespec_dumps


def spec_text(spec: TreeSpec) -> str:
    """Returns a pytree as JSON for `torch.utils._pytree.treespec_loads`."""
    try:
        return treespec_dumps(spec)
    except NotImplementedError:
        # a container without a registered serialized name
        return json.dumps(str(spec))
