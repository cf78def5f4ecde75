# SPDX-License-Identifier: Apache-2.0
"""Language models of images and text: from a checkpoint's folder to a `delegatec.Model`."""
