"""Store: content-addressed bytes, layers, refs, and how they are shared, checked and collected.

A store is a folder (`.laminar`, or $LAMINAR_STORE). Read in this order:

    layout.py     where everything lies, and the format number
    records.py    JSON on disk with its own checksum, so that a flipped bit is found
    raw.py        RawTensor: dtype, shape and bytes; its one form as a file
    index.py      which files are known to hold what their name says, by stat signature
    objects.py    files named by the sha256 of their content
    mapping.py    copy-on-write memory maps that keep no file open
    delta.py      a tensor as few changed elements of another
    tensors.py    many tensors in and out, in parallel
    manifest.py   what a layer is: Manifest, BuildRecord, identity
    reflog.py     pure replay of a ref's log: history, rollback, redo
    refs.py       refs and tags on disk
    resolve.py    what a person types -> the id of a layer
    locks.py      locks and leases that die with their process
    projects.py   the projects that share this store
    store.py      Store: the above behind one door
    runs.py       what is known of a training that is done
    retention.py  what gc may delete: pure
    gc.py         deleting it
    findings.py, verify.py, verify_kept.py   finding what is broken
    repair.py     mending it, from what is here and from remotes
    driver_files.py, drivers.py   files on another machine, over fsspec; which kind a URL means
    remote_files.py, remote_refs.py   the same with our errors; names on a remote
    remotes.py    the remotes this store knows
    sent.py       which objects of a remote it knows to be right
    remote.py     push, fetch and pull of layers

No torch here: tensors cross as RawTensor. Nothing is ever unpickled. Every file is written as temp + fsync + rename, refs last.
Not here: what determines a key (stack), what is in a graph (model), what a checkpoint means (train).
"""
