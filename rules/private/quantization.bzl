# SPDX-License-Identifier: Apache-2.0
"""The check of a `quantized_program`'s settings, before anything is built.

`delegatec.quantize.settings` is the authority.
"""

load(":compiler_tables.bzl", "QUANTIZATION_CHOICES", "QUANTIZATION_NEEDS")
load(":options.bzl", "did_you_mean", "problem")

def with_settings(attributes):
    """Returns attributes with those of the settings, without their check, in alphabetical order.

    Args:
        attributes: dict of the rule's other attributes.
    """
    settings = {
        name: attr.string(default = choices[0], doc = _DOCS[name])
        for name, choices in QUANTIZATION_CHOICES.items()
    }
    found = dict(attributes, **settings)
    return {name: found[name] for name in sorted(found)}

def setting_problems(attributes):
    """Checks the settings of a target.

    Args:
        attributes: those of the rule.

    Returns:
        A `problem` for each unknown value, and each that does not fit another one.
    """
    problems = []
    for name, choices in QUANTIZATION_CHOICES.items():
        value = getattr(attributes, name)
        if value not in choices:
            problems.append(problem(
                "DC130",
                "%s = \"%s\" is not a quantization setting" % (name, value),
                expected = _listed(choices),
                help = did_you_mean(value, choices),
            ))
    if attributes.minimum_snr_db < 0:
        problems.append(problem(
            "DC130",
            "minimum_snr_db = %d is not a limit of the error" % attributes.minimum_snr_db,
            expected = "the least signal to noise ratio in dB, such as 25, or 0 for none",
        ))
    if attributes.group_size < 0 or attributes.group_size == 1:
        problems.append(problem(
            "DC130",
            "group_size = %d is not a group of inputs" % attributes.group_size,
            expected = "2 or more inputs of linear layers, such as 32, or 0 for all inputs",
        ))
    for setting, other, needed in QUANTIZATION_NEEDS:
        name, _, value = setting.partition(" = ")
        own, found = getattr(attributes, name), getattr(attributes, other)
        is_set = own == value if value else own > 0 if type(own) == "int" else bool(own)
        if is_set and found in QUANTIZATION_CHOICES[other] and found not in needed:
            shown = "%s = \"%s\"" % (name, value) if value else "%s = %d" % (name, own) if type(own) == "int" else name
            problems.append(problem(
                "DC136",
                "%s needs %s = %s, not \"%s\"" % (shown, other, _listed(needed), found),
                expected = "%s = %s, or no %s" % (other, _listed(needed), name),
            ))
    return problems

def _listed(values):
    return " or ".join(["\"%s\"" % value for value in values])

_DOCS = {
    "activation": "Dtype of activations. `int8` or `int16`: all have ranges, from samples. Without samples: `dynamic_int8`, " +
                  "operands of layers are quantized at run time, or `float`, weights alone are quantized.",
    "inner": "Dtype of values inside softmax, attention and norms, and of sums before norms: `same` as of " +
             "activations, or `int16`, which transformers need, and which Ethos-U55 and U65 do not support.",
    "observer": "Range of an int8 activation: `histogram`, with the least squared error, or `minmax`, all values.",
    "ranges": "`affine`, with zero points of int8 activations, or `symmetric`, without.",
    "weight": "Dtype of the weights of layers: `int8`, `int4`, or, with activations in float, `float16`.",
    "weight_scales": "`channel`, a scale per output channel of a layer, or `tensor`, one per weight.",
}
