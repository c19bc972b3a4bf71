"""What rows in Warp share: the row itself, its kernels, and how they are launched."""

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # not a line for every module it loads
