"""Drawing: pictures that need no file. font.py (strokes), draw.py (from strokes to pixels)."""
