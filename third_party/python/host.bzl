# SPDX-License-Identifier: Apache-2.0
"""Finds the host's Python for repository rules, which run before the build's Python exists."""

PYTHON_VERSION = "3.11"

# A repository rule that calls host_python() lists these in `environ`.
HOST_PYTHON_ENVIRON = ["DELEGATEC_PYTHON", "PATH"]

_PROBE = """\
import importlib, sys
[importlib.import_module(name) for name in sys.argv[1:]]
print("%d.%d" % sys.version_info[:2])
"""

def host_python(rctx, modules = []):
    """Finds a CPython of PYTHON_VERSION on the host.

    If the variable DELEGATEC_PYTHON is set, only the interpreter that it names is tried.

    Args:
        rctx: the repository's context.
        modules: names of modules that it must be able to import, such as "pip".

    Returns:
        The interpreter's path as a string.
    """
    named = rctx.os.environ.get("DELEGATEC_PYTHON")
    names = [named] if named else ["python" + PYTHON_VERSION, "/usr/bin/python" + PYTHON_VERSION, "python3"]
    tried = []
    for name in names:
        path = name if name.startswith("/") else rctx.which(name)
        if not path:
            tried.append("%s: not found" % name)
            continue
        probe = rctx.execute([path, "-I", "-B", "-c", _PROBE] + modules)
        version = probe.stdout.strip()
        if probe.return_code:
            tried.append("%s: %s" % (path, probe.stderr.strip().split("\n")[-1]))
        elif version != PYTHON_VERSION:
            tried.append("%s: is Python %s" % (path, version))
        else:
            return str(path)
    fail("\n".join([
        "",
        "error DC010: no usable Python %s on this host" % PYTHON_VERSION,
    ] + ["  tried: " + reason for reason in tried] + [
        "  expected: CPython %s%s" % (PYTHON_VERSION, " with " + ", ".join(modules) if modules else ""),
        "  help: apt-get install python%s python3-pip, or name one with --repo_env=DELEGATEC_PYTHON=/path/to/python" % PYTHON_VERSION,
        "",
    ]))
