# SPDX-License-Identifier: Apache-2.0
"""The built-in backends with their options, as far as they are checked before anything is built.

`delegatec.backends` is the authority; //tests/rules:backends_test compares the two.
"""

# Backend -> option -> allowed values, the default first.
BACKENDS = {
    "mps": {
        "precision": ["fp32", "fp16"],
    },
    "portable": {},
}

def is_plugin(backend):
    """Whether a backend is named as `module:attribute`, and so is a user's own."""
    return ":" in backend

def check_backend(label, backend, options):
    """Fails unless the backend is there and takes these options.

    A plug-in's options are checked by the plug-in itself, while it lowers.

    Args:
        label: the target, for the message.
        backend: a backend's name, or `module:attribute` of a plug-in.
        options: dict of option to value.
    """
    if is_plugin(backend):
        return
    known = BACKENDS.get(backend)
    if known == None:
        _fail(
            label,
            "DC401",
            "no backend is named \"%s\"" % backend,
            expected = "%s, or module:attribute of a plug-in" % ", ".join(sorted(BACKENDS)),
        )
    for option, value in options.items():
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
