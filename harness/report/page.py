"""temporary."""


def page(records, entries):
    return "<!doctype html>"
