# SPDX-License-Identifier: Apache-2.0
"""`program_cc_library`: a program as a library of C++."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load(":options.bzl", "fail_with")
load(":program_header.bzl", "program_header")

_COMMON = ["tags", "target_compatible_with", "testonly", "visibility"]

def program_cc_library(name, program, embed = False, kernels = None, quantized_kernels = False, backends = [], namespace = "", measure = False, **kwargs):
    """Declares a library of C++ with the class of a program, and the parts of the runtime that it needs.

    `#include "package/NAME.h"` has a class `Program`, with a function for each method, which checks dtypes, shapes and the
    orders of dimensions. Compile with C++17. The build fails with the target's name if the program needs a library that
    is not linked, or if one that an attribute names is not needed.

    Args:
        name: the target's name.
        program: the lowered program.
        embed: whether the program is part of the binary. If not, it is a runfile, and the header has its path.
        kernels: whether the library of kernels is linked. By default it is, unless the program has
            `require_full_delegation`.
        quantized_kernels: likewise the kernels of the namespace `quantized_decomposed`.
        backends: ids of the backends, such as "XnnpackBackend"; by default those of the program. Needed for plug-ins.
        namespace: namespace of the class, by default the target's name; with underscores for what C++ does not allow.
        measure: whether the sizes of the method and temporary arenas are measured: the action runs the program in the
            configured runtime, built for the host. By default they are computed for the runtime of 1.5.1.
        **kwargs: `copts`, `linkopts`, `deps`, and the attributes of every rule.
    """
    label = "//%s:%s" % (native.package_name(), name)
    if kernels not in [None, False, True]:
        fail_with(label, "DC423", "kernels is %s" % repr(kernels), expected = "True, False, or nothing")
    common = {key: kwargs[key] for key in _COMMON if key in kwargs}
    program_header(
        name = name + ".header",
        backends = backends,
        embed = embed,
        file_name = name,
        kernels = {None: "auto", False: "no", True: "yes"}[kernels],
        namespace = namespace,
        program = program,
        quantized_kernels = quantized_kernels,
        runner = Label("//runtime:runner") if measure else None,
        **common
    )
    for group in ["assembly", "embedded"]:
        native.filegroup(
            name = "%s.%s" % (name, group),
            srcs = [":" + name + ".header"],
            output_group = group,
            **common
        )
    if not embed:
        kwargs["data"] = [program] + kwargs.pop("data", [])
    cc_library(
        name = name,
        srcs = [":" + name + ".assembly"],
        hdrs = [":" + name + ".header"],
        linkstatic = True,
        textual_hdrs = [":" + name + ".embedded"],
        deps = [":" + name + ".header", Label("//runtime:typed_program")] + kwargs.pop("deps", []),
        **kwargs
    )
