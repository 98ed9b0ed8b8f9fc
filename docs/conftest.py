"""What pytest leaves alone here: the built site and the scripts that make it."""

from conftest import closed_pictures  # noqa: F401 of the tests, for the examples of the pages too

collect_ignore = [
    "_build",
    "_generated",
    "api",
    "auto_examples",
    "conf.py",
    "gallery_style.py",
    "make_flats.py",
    "make_picture.py",
]
