# SPDX-License-Identifier: Apache-2.0
"""The programs that backends run, such as a vendor's compiler: wheels on the import path of the lowering.

Bazel fetches them only to lower a program for such a backend. Each is a flag, which a workspace may set to a target of its
choice with the same modules.
"""

load(":python_paths.bzl", "PYTHON_PROVIDERS")

_TOOLS = {
    "ethos_u": [Label("//config:vela")],
    "vgf": [Label("//config:model_converter")],
}

def requested_tools(backends, method_backends = {}):
    """Returns the labels of the programs that backends run.

    Args:
        backends: list of backends, or a `select`, whose choice is unknown: then the tools of all.
        method_backends: dict of method to such a list, or a `select`.

    Returns:
        A list of labels.
    """
    if type(backends) == "select" or type(method_backends) == "select":
        requested = _TOOLS.keys()
    else:
        requested = depset(backends + [backend for entry in method_backends.values() for backend in entry]).to_list()
    return [tool for backend in requested for tool in _TOOLS.get(backend, [])]

def tools_attrs(backends = []):
    """Returns the attributes of a rule that lowers.

    Args:
        backends: the backends of every target of the rule.

    Returns:
        A dict of attributes.
    """
    return {
        "tools": attr.label_list(
            cfg = "exec",
            doc = "Programs that the other backends of the target run. The macro of the rule sets it.",
            providers = PYTHON_PROVIDERS,
        ),
        "_tools": attr.label_list(
            cfg = "exec",
            default = requested_tools(backends),
            providers = PYTHON_PROVIDERS,
        ),
    }

def program_tools(ctx):
    """Returns the targets of the programs that the backends of a target run.

    Args:
        ctx: the context of a rule, with these attributes or without them.

    Returns:
        A list of targets with PyInfo.
    """
    return getattr(ctx.attr, "_tools", []) + getattr(ctx.attr, "tools", [])
