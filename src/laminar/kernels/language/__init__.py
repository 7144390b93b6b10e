"""The language: a C99 subset in which no two names are one thing, so that what depends on what can be told from the text.

Read in this order:

    rules.py                what a kernel may not do, by number; errors with a caret
    tree.py                 what a kernel is once it was read: typed operators, one body, no pointers
    text.py, parse.py       the file to the C parser's tree, positions kept; described.py: parameters described beside it
    kernel.py               the way in: `read_kernel`; with names.py, types.py, fold.py, intrinsics.py
    declarations.py, expressions.py, statements.py, calls.py   C's nodes to those of tree.py
    pointers.py, pointing.py, addresses.py, settle.py          what each pointer points at, so that none is left in the tree
    contract.py             products that are added become fma
    print.py, spell.py      a tree to text again
    outline.py              a tree and its data objects to look at
    same.py                 are two expressions the same?

Not here: what can be told about a kernel without running it (analyse).
"""
