"""Model: building a model, changing it, and keeping it without its author's code.

Read in this order: project.py (import of a project's own modules, kept apart from everyone else's), factory.py (`models:convnet`
-> callable), builtin.py (`laminar:mlp` …), build.py (call a factory), replace.py and freeze.py (change a model by module path),
fit.py (does the model fit the data), weights.py (torch tensors <-> the store's), then the graphs: graph.py (the two public
functions), graph_export.py (model -> archive), graph_file.py (the archive's bytes), graph_schema.py and graph_ops.py (what an
archive may contain: the safety check), graph_tree.py (flat list of operators -> calls of modules), graph_module.py (runs them), graph_text.py
(canonical text, the structure digest), portable.py (files for other programs).
Not here: how tensors are kept (store), how a model is trained (train), the prefix that kept features start after (prefix.py is here,
its use is in train).
"""
