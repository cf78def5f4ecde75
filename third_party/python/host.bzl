# SPDX-License-Identifier: Apache-2.0
"""Finds the host's Python for repository rules, which run before the build's Python exists."""

# The oldest whose pip and library our scripts use.
_OLDEST = "3.11"

# A repository rule that calls host_python() lists these in `environ`.
HOST_PYTHON_ENVIRON = ["DELEGATEC_PYTHON", "PATH"]

_PROBE = """\
import importlib, sys
[importlib.import_module(name) for name in sys.argv[1:]]
print("%d.%d" % sys.version_info[:2])
"""

def host_python(rctx, modules = [], version = "", otherwise = ""):
    """Finds a CPython on the host.

    If the variable DELEGATEC_PYTHON is set, only the interpreter that it names is tried.

    Args:
        rctx: the repository's context.
        modules: names of modules that it must be able to import, such as "pip".
        version: its version, such as "3.13"; by default any that can run our scripts.
        otherwise: what a user can do without it, for the message.

    Returns:
        The interpreter's path as a string.
    """
    named = rctx.os.environ.get("DELEGATEC_PYTHON")
    numbered = "python" + (version or _OLDEST)
    names = [named] if named else [numbered, "/usr/bin/" + numbered, "python3"]
    tried = []
    for name in names:
        path = name if name.startswith("/") else rctx.which(name)
        if not path:
            tried.append("%s: not found" % name)
            continue
        probe = rctx.execute([path, "-I", "-B", "-c", _PROBE] + modules)
        found = probe.stdout.strip()
        if probe.return_code:
            tried.append("%s: %s" % (path, probe.stderr.strip().split("\n")[-1]))
        elif found != version and (version or _number(found) < _number(_OLDEST)):
            tried.append("%s: is Python %s" % (path, found))
        else:
            return str(path)
    expected = version or _OLDEST + " or newer"
    fail("\n".join([
        "",
        "error DC010: no usable Python %s on this host" % expected,
    ] + ["  tried: " + reason for reason in tried] + [
        "  expected: CPython %s%s" % (expected, " with " + ", ".join(modules) if modules else ""),
        "  help: apt-get install %s python3-pip, or name one with --repo_env=DELEGATEC_PYTHON=/path/to/python" % numbered,
    ] + (["  or: " + otherwise] if otherwise else []) + [""]))

def _number(version):
    """Returns a version that can be compared: 3.11 is newer than 3.9."""
    return [int(part) for part in version.split(".")]
