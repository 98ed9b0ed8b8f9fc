"""Page."""


def page(lines: list) -> str:
    return ""
