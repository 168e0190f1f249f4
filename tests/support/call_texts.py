"""Calls as text: a text names its case, and is what runs."""


def texts(lines: str, between: str = "; ") -> list[str]:
    """Return the calls of a text of several lines."""
    return " ".join(lines.split()).split(between)
