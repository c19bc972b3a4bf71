"""temporary"""


def markdown(records, entries):
    return "# Findings\n"
