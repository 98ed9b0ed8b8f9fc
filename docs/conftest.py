"""What pytest leaves alone here: the built site and the scripts that make it."""

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
