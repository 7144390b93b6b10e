"""Data: from a line in laminar.toml to contiguous arrays, their fingerprint, and batches of them.

Read in this order: spec.py (what may be written), dataset.py (what comes out), sources/ (one file a source, and the registry),
open.py (source, then classes.py, split.py, sample or limit), fingerprint.py (what goes into a layer's key) with remember.py (which never
reads a file twice that did not change), trees.py and file_lists.py (which files a content was), room.py and mapped.py (memory up to a
budget, files beyond it), batches.py (shuffled blocks from a background thread) with gather.py (how a block is filled), augment.py,
augment_affine.py, augment_fit.py (whether that fits the data) and order.py, samples.py (a digest per sample).
Images: index.py (an index names every image of a set) with make_index.py, pictures.py (what is known of each, and where it lies),
fragments/ (squares cut from images, virtual, and local samples of them) with local_sample.py, mirrors/ (fetching images from several
servers), serve/ (being one), overview.py and contact_sheet.py (what `laminar data show` shows).
Under the sources: formats/ (how bytes are read: idx, npz, images, …), pixels.py (rows of tables as images), drawing/ (the glyphs we draw),
download.py and unpack.py.

Not here: tensors (model, train), how anything is kept (store). No torch, and no numpy until data is really opened.
"""
