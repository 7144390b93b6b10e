"""Stack: from laminar.toml to layers.

Read in this order: specs.py (what may be written), read.py (the file, with errors that name line and nearest word),
key.py (specs to sha256), plan.py (per layer: build or cached, and why, in_words.py), build.py (walk, reuse or train), train_layer.py
(one layer: make.py its model, keep.py a model into the store), choose_data.py and choose_strategy.py (what the command line says instead
of the file), explain.py (which input changed), data_since.py (which files of the data), diff.py,
rollback.py (refs back and forth; laminar.toml too), use.py (evaluate, predict, load), share.py (push, pull), files.py (import, export),
mend.py (verify and repair), doctor.py, report.py, init.py (templates), api.py (the same from Python).
Not here: how bytes are kept (store), how a job is trained (train), what is printed (cli).
"""
