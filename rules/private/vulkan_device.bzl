# SPDX-License-Identifier: Apache-2.0
"""The file of a device, by its name or label."""

load(":compiler_tables.bzl", "VULKAN_DEVICES")
load(":options.bzl", "did_you_mean", "fail_with")

def vulkan_device(name, device):
    """Returns the label of the file of a device.

    Args:
        name: the name of the target, for messages.
        device: the name of a built-in device; the label of a file, or a `select` of labels, as it is.

    Returns:
        A label.
    """
    if type(device) != "string" or device.endswith(".json") or "/" in device or ":" in device:
        return device
    if device not in VULKAN_DEVICES:
        fail_with(
            "//%s:%s" % (native.package_name(), name),
            "DC402",
            "no device is named \"%s\"" % device,
            expected = "%s, or the label of a file *.json" % ", ".join(VULKAN_DEVICES),
            help = did_you_mean(device, VULKAN_DEVICES),
        )
    return Label("//python/delegatec/backends/vulkan:devices/builtin/%s.json" % device.replace("-", "_"))
