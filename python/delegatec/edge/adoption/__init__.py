# SPDX-License-Identifier: Apache-2.0
"""What exported programs have of other libraries, as what exists in each process that lowers one."""
