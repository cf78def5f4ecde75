# SPDX-License-Identifier: Apache-2.0
"""What backends and partitioners implement, receive and return."""
