# SPDX-License-Identifier: Apache-2.0
"""The check of attributes that name a metric, and the dataset that it is computed over."""

load(":options.bzl", "problem")
load(":tolerances.bzl", "is_number")

def dataset_problems(attributes, is_required):
    """Checks the dataset and the metric of a target.

    Args:
        attributes: those of the rule: `dataset`, `dataset_entry` and `metric`.
        is_required: bool, whether it needs a dataset.

    Returns:
        A list of `problem`.
    """
    problems = []
    is_twice = bool(attributes.dataset and attributes.dataset_entry)
    if is_twice or (is_required and not attributes.dataset and not attributes.dataset_entry):
        problems.append(problem(
            "DC521",
            "dataset and dataset_entry are both set" if is_twice else "neither dataset nor dataset_entry is set",
            expected = "dataset = \"samples.safetensors\", or dataset_entry = \"module:attribute\"",
        ))
    for name in ["dataset_entry", "metric"]:
        value = getattr(attributes, name)
        if value and not all(value.partition(":")):
            problems.append(problem(
                "DC521",
                "%s \"%s\" does not name an attribute of a module" % (name, value),
                expected = "module:attribute, such as \"my.metrics:top1\"",
                help = "the module is imported from `deps`",
            ))
    return problems

def loss_problems(attributes):
    """Checks the limit of a loss.

    Args:
        attributes: those of the rule: `maximum_loss`.

    Returns:
        A list of `problem`.
    """
    if not attributes.maximum_loss or is_number(attributes.maximum_loss):
        return []
    return [problem(
        "DC514",
        "maximum_loss cannot be \"%s\"" % attributes.maximum_loss,
        expected = "a number of at least 0, such as \"0.01\"",
    )]
