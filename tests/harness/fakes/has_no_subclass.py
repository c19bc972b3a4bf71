import right  # noqa: F401
