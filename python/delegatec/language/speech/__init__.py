# SPDX-License-Identifier: Apache-2.0
"""Speech recognition: from a checkpoint's folder to a `delegatec.Model` of an encoder and a decoder."""
