# SPDX-License-Identifier: Apache-2.0
"""The built-in backends with their options, as far as they are checked before anything is built.

`delegatec.backends` is the authority; //tests/rules:backends_test compares the two.
"""

# Backend -> option -> allowed values, the default first.
BACKENDS = {
    "mps": {
        "fp16_overflow": ["error", "saturate"],
        "int4": ["int8", "packed"],
        "precision": ["fp32", "fp16"],
    },
    "portable": {},
}

def is_plugin(backend):
    """Whether a backend is named as `module:attribute`, and so is a user's own."""
    return ":" in backend

def check_backends(label, lists, options):
    """Fails unless the backends are there and take these options.

    A plug-in's options are checked by the plug-in itself, while it lowers.

    Args:
        label: the target, for the message.
        lists: lists of backends: a backend's name, or `module:attribute` of a plug-in.
        options: dict of option to value; an option of one of several backends is named "BACKEND.OPTION".

    Returns:
        Each backend once; "portable" is none.
    """
    asked = []
    for backends in lists:
        for backend in backends:
            if not is_plugin(backend) and backend not in BACKENDS:
                _fail(
                    label,
                    "DC401",
                    "no backend is named \"%s\"" % backend,
                    expected = "%s, or module:attribute of a plug-in" % ", ".join(sorted(BACKENDS)),
                )
            if backend == "portable" and len(backends) > 1:
                _fail(
                    label,
                    "DC401",
                    "portable stands among several backends: %s" % ", ".join(backends),
                    expected = "portable by itself, or only backends: what they leave runs on the portable kernels anyway",
                )
            if backend != "portable" and backend not in asked:
                asked.append(backend)
    for option, value in options.items():
        backend, name = _owner(label, asked, option)
        if not is_plugin(backend):
            _check_option(label, backend, name, value)
    return asked

def _owner(label, backends, option):
    """The backend that an option is for, and its name there."""
    owners = [backend for backend in backends if option.startswith(backend + ".")]
    if owners:
        owner = sorted(owners, key = len)[-1]
        return owner, option[len(owner) + 1:]
    if len(backends) > 1:
        _fail(
            label,
            "DC414",
            "option \"%s\" does not say which of the backends it is for" % option,
            expected = " or ".join(["\"%s.%s\"" % (backend, option) for backend in backends]),
        )
    return backends[0] if backends else "portable", option

def _check_option(label, backend, option, value):
    known = BACKENDS[backend]
    if option not in known:
        _fail(
            label,
            "DC402",
            "backend \"%s\" has no option \"%s\"" % (backend, option),
            expected = ", ".join(sorted(known)) or "no options",
        )
    elif value not in known[option]:
        _fail(
            label,
            "DC402",
            "option \"%s\" of backend \"%s\" cannot be \"%s\"" % (option, backend, value),
            expected = " or ".join(known[option]),
        )

def _fail(label, code, message, expected):
    fail("\n".join([
        "",
        "%s: error %s: %s" % (label, code, message),
        "  expected: " + expected,
        "",
    ]))
