# SPDX-License-Identifier: Apache-2.0
"""Language models: from a checkpoint's folder, as Hugging Face publishes it, to a `delegatec.Model`."""
