# SPDX-License-Identifier: Apache-2.0
"""The delegatec toolchain: how Bazel runs the compiler."""

load(":launcher.bzl", "SHARED_LAUNCHER_ATTRS", "shared_launcher")
load(":python_paths.bzl", "PYTHON_PROVIDERS", "import_roots", "merged_python")

DelegatecInfo = provider(
    doc = "The compiler: `toolchain.delegatec` of the resolved toolchain.",
    fields = {
        "backends": "dict of string to depset of File: sources of each package of built-in backends, which are inputs of the actions that use it.",
        "environment": "dict of string to string: the environment of an action that runs the compiler.",
        "inputs": "depset of File: inputs of an action that runs the compiler, besides its tool and backends.",
        "launcher": "struct: `script`, a File that runs the compiler from runfiles, and `files`, a depset of these.",
        "tool": "FilesToRunProvider: it runs the interpreter; the compiler's sources and the manifests are its runfiles.",
    },
)

# The compiler's whole environment, apart from paths.
FIXED_ENVIRONMENT = {
    # transformers would ask for a model that is not declared six times, in half a minute.
    "HF_HUB_OFFLINE": "1",
    # If it is unset, Python finds another one, with the caches of libraries. Nothing can be created in /dev/null.
    "HOME": "/dev/null",
    "LC_ALL": "C.UTF-8",
    # torch asks for the user's name when it is imported, and would read /etc/passwd.
    "LOGNAME": "delegatec",
    # Bazel assigns the cores.
    "OMP_NUM_THREADS": "1",
    # The order of Python's sets depends on it.
    "PYTHONHASHSEED": "0",
    # Progress bars of libraries that load weights.
    "TQDM_DISABLE": "1",
}

# No user site-packages, no current directory on the path, no .pyc files next to the sources. Not -I, which also
# ignores PYTHONHASHSEED.
INTERPRETER_FLAGS = ["-s", "-P", "-B"]

def _delegatec_binary_impl(ctx):
    python = merged_python(ctx, [ctx.attr.library])
    manifests = [ctx.file.interpreter_manifest, ctx.file.site_packages_manifest]

    # The directories are inputs of each action. As runfiles they would be part of the worker's key, and Bazel would
    # read them for each request.
    directories = [ctx.file.interpreter_library, ctx.file.site_packages]
    sources, backends = _sources(ctx, python.files.to_list(), directories)

    # A link to the interpreter would be a copy of it on a remote worker, far from its shared library and its modules.
    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        content = "#!/bin/sh\nexec %s \"$@\"\n" % ctx.file.interpreter.path,
        is_executable = True,
        output = executable,
    )
    return [
        DefaultInfo(
            executable = executable,
            runfiles = ctx.runfiles([ctx.file.interpreter] + manifests + sources),
        ),
        DelegatecInfo(
            backends = backends,
            environment = dict(FIXED_ENVIRONMENT, PYTHONPATH = ":".join(import_roots(ctx, python.imports))),
            inputs = depset(directories + [ctx.file.interpreter] + manifests + sources),
            launcher = shared_launcher(
                ctx,
                environment = FIXED_ENVIRONMENT,
                flags = INTERPRETER_FLAGS,
                interpreter = [ctx.file.interpreter, ctx.file.interpreter_library, ctx.file.interpreter_manifest],
                python = python,
                site_packages = [ctx.file.site_packages, ctx.file.site_packages_manifest],
            ),
            tool = None,
        ),
    ]

def _sources(ctx, files, directories):
    """Returns the sources of the compiler: those of its core, and a dict of package to depset of a backend's."""
    core = {file: True for file in merged_python(ctx, ctx.attr.core).files.to_list()}
    backends = {}
    own_files = {}
    for target, name in ctx.attr.backends.items():
        own = [file for file in merged_python(ctx, [target]).files.to_list() if file not in core]
        backends[name] = depset(own)
        own_files.update([(file, True) for file in own])
    return [file for file in files if file not in directories and file not in own_files], backends

delegatec_binary = rule(
    implementation = _delegatec_binary_impl,
    doc = """\
The compiler as the executable of an action.

It runs the interpreter, and has the compiler's sources as its runfiles. Bazel 4.2.3 puts only an executable's runfiles in
the key of a worker: with the sources as plain inputs, a worker would keep running the old ones after an edit.
""",
    attrs = dict(SHARED_LAUNCHER_ATTRS, **{
        "backends": attr.label_keyed_string_dict(
            doc = "Libraries of built-in backends -> package. Their sources are inputs of the actions that use them, " +
                  "but not in the worker's key: an edit of one does not run the actions of the others.",
            providers = PYTHON_PROVIDERS,
        ),
        "core": attr.label_list(
            doc = "Libraries that are part of the tool even if a backend depends on them.",
            providers = PYTHON_PROVIDERS,
        ),
        "interpreter": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "The Python interpreter.",
        ),
        "interpreter_library": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "The directory of the interpreter's shared library and modules, as one input.",
        ),
        "interpreter_manifest": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "Names and digests of the interpreter's files, which represent them in the keys of actions.",
        ),
        "library": attr.label(
            mandatory = True,
            doc = "The compiler's Python library.",
            providers = PYTHON_PROVIDERS,
        ),
        "site_packages": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "The directory of the compiler's wheels, as one input.",
        ),
        "site_packages_manifest": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "Names and digests of the files in that directory.",
        ),
    }),
    executable = True,
)

def _delegatec_toolchain_impl(ctx):
    binary = ctx.attr.delegatec
    info = binary[DelegatecInfo]
    return [platform_common.ToolchainInfo(
        delegatec = DelegatecInfo(
            backends = info.backends,
            environment = info.environment,
            inputs = info.inputs,
            launcher = info.launcher,
            tool = binary[DefaultInfo].files_to_run,
        ),
    )]

delegatec_toolchain = rule(
    implementation = _delegatec_toolchain_impl,
    doc = "Declares the compiler that the rules run.",
    attrs = {
        "delegatec": attr.label(
            mandatory = True,
            cfg = "exec",
            doc = "A `delegatec_binary`.",
            executable = True,
            providers = [DelegatecInfo],
        ),
    },
)
