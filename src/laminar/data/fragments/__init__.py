"""Fragments: squares cut from large images in an overlapping grid, turned, numbered, and never written to disk.

Read in this order: grid.py (where fragments lie: the formula), reach.py (which pixels a turned square reads), table.py (number -> image,
place, angle), turn.py (a turn as integers), cut.py (pixels of one image's fragments), reader.py (fragments of many images, loaded as they
are needed) with kept.py (what was used last, up to a budget of bytes), sample.py (a random choice, as many of each class), virtual.py (all
fragments of a data set, and their sides), open.py (arrays of them).
Not here: how an image file is decoded (formats/images.py), which image is for testing (split.py). No torch.
"""
