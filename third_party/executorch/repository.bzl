# SPDX-License-Identifier: Apache-2.0
"""`@delegatec_runtime`: ExecuTorch's C++ runtime, out of its wheels.

Each platform has a repository, so that Bazel fetches only the wheel that a build links.
"""

load("//third_party/python:host.bzl", "HOST_PYTHON_ENVIRON", "host_python")
load(":wheels.bzl", "VERSION", "WHEELS")

# Libraries of each platform; //third_party/executorch:libraries.BUILD.bazel declares them.
_LIBRARIES = [
    "backend_xnnpack",
    "etdump",
    "executorch",
    "kernels_optimized",
    "kernels_quantized",
    "threadpool",
]

_SETTING = """
config_setting(
    name = "{platform}",
    constraint_values = {constraints},
)
"""

_ALIAS = """
alias(
    name = "{name}",
    actual = select(
        {{
            {actual}
        }},
        no_match_error = "no wheel of executorch {version} for this platform, but for {platforms}; set --@rules_delegate//config:runtime to a delegate_runtime of yours",
    ),
)
"""

# Files of one platform, which no build configuration chooses.
_FILES = """
alias(
    name = "{platform}_{name}",
    actual = "@{prefix}_{platform}//:{name}",
)
"""

def _libraries_impl(rctx):
    wheel = WHEELS[rctx.attr.platform]
    rctx.report_progress("Downloading the wheel of executorch %s" % VERSION)
    done = rctx.execute(
        [host_python(rctx, modules = ["pip"]), "-B", rctx.path(rctx.attr._extract)] +
        ["--version", VERSION, "--tag", wheel.tag, "--sha256", wheel.sha256, "--target", "."],
        timeout = 3600,
    )
    if done.return_code:
        fail("\n".join([
            "",
            "error DC011: the wheel of executorch %s for %s cannot be downloaded" % (VERSION, wheel.tag),
            done.stdout + done.stderr,
            "  expected: pip finds it, with the hash that is locked",
            "",
        ]))
    rctx.symlink(rctx.attr._build_file, "BUILD.bazel")

_libraries = repository_rule(
    implementation = _libraries_impl,
    doc = "Extracts the C++ libraries and headers of ExecuTorch's wheel for a platform.",
    attrs = {
        "platform": attr.string(mandatory = True, doc = "A key of WHEELS."),
        "_build_file": attr.label(default = "//third_party/executorch:libraries.BUILD.bazel"),
        "_extract": attr.label(default = "//third_party/executorch:extract_runtime.py"),
    },
    environ = HOST_PYTHON_ENVIRON,
)

def _hub_impl(rctx):
    content = ["package(default_visibility = [\"//visibility:public\"])\n"]
    for platform, wheel in WHEELS.items():
        content.append(_SETTING.format(constraints = repr(wheel.constraints), platform = platform))
        content += [_FILES.format(name = name, platform = platform, prefix = rctx.attr.prefix) for name in ["headers", "libraries"]]
    for name in _LIBRARIES:
        content.append(_ALIAS.format(
            actual = "\n            ".join(["\":%s\": \"@%s_%s//:%s\"," % (platform, rctx.attr.prefix, platform, name) for platform in WHEELS]),
            name = name,
            platforms = " and ".join(WHEELS),
            version = VERSION,
        ))
    rctx.file("BUILD.bazel", "".join(content), executable = False)

_hub = repository_rule(
    implementation = _hub_impl,
    doc = "Chooses the libraries of the target platform.",
    attrs = {
        "prefix": attr.string(mandatory = True, doc = "What the names of the repositories of platforms start with."),
    },
)

def executorch_runtime(existing = []):
    """Declares @delegatec_runtime, and the libraries of each platform.

    Args:
        existing: names of repositories that are already declared, which are not changed.
    """
    name = "delegatec_runtime"
    if name not in existing:
        _hub(name = name, prefix = name)
    for platform in WHEELS:
        if name + "_" + platform not in existing:
            _libraries(name = name + "_" + platform, platform = platform)
