"""Data: from a line in laminar.toml to contiguous arrays, their fingerprint, and batches of them.

Read in this order: spec.py (what may be written), dataset.py (what comes out), sources/ (one file a source, and the registry),
open.py (source, then classes.py, split.py, limit), fingerprint.py (what goes into a layer's key) with remember.py (which never
reads a file twice that did not change), batches.py (shuffled blocks from a background thread) with augment.py and order.py,
samples.py (a digest per sample).
Under the sources: formats/ (how bytes are read: idx, npz, images), drawing/ (the glyphs we draw), download.py,
opened_files.py (what a project's own function looked at).
Not here: tensors (model, train), how anything is kept (store). No torch, and no numpy until data is really opened.
"""
