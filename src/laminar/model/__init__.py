"""Model: building a model, changing it, and keeping it without its author's code.

Read in this order: factory.py (`models:convnet` -> callable), builtin.py (`laminar:mlp` …)
and networks/ (`laminar:alexnet` …), build.py (call a factory), paths.py,
replace.py and freeze.py (change a model by module path), modes.py, fit.py (does the model fit the data), author_errors.py (what went
wrong in the author's code, and where), weights.py (torch tensors <-> the store's). Then the graphs: graph.py (export_forms and
load_forms), graph_export.py (a model is traced), graph_file.py (the archive's bytes; graph_members.py: its zip), graph_values.py,
graph_read.py (what an archive may say: checked, never evaluated), graph_operators.py (which operators it may call: the table),
graph_rules.py and graph_ops.py (checks of their arguments), graph_kernels.py (kernels, which it only names),
graph_ir.py (what it says), graph_tree.py (list of operators -> calls of modules), graph_module.py (runs them), graph_text.py (canonical
text, the structure digest), graph_reuse.py (when a model need not be traced again), graph_outline.py (modules and what flows between them,
for people; no torch). Last: portable.py and pt2.py (files for and from other programs), prefix.py (the part of a model whose outputs can be
kept).
Not here: how tensors are kept (store), how a model is trained (train). Importing this package loads no torch.
"""
