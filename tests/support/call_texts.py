"""Calls as text: a text names its case, and is what runs."""


def texts(lines, between="; "):
    """Return the calls of a text of several lines."""
    return " ".join(lines.split()).split(between)


def functions(lines, parameters, names):
    """Return functions that evaluate the expressions of a text with the names of a module."""
    # As code of that file: messages name the user's file and line.
    file = names["__file__"]
    return {
        text: eval(compile(f"lambda {parameters}: {text}", file, "eval"), names)  # noqa: S307  # ours
        for text in texts(lines)
    }
