"""Kernels: the inner operation of a network as a C-like text for one instance, checked, split, emulated, compiled, derived.

Read in this order:

    language/    the text to an operator tree; the rules
    analyse/     what is proved of a kernel: who is independent of whom, what stays within bounds
    emulate/     running it with every access counted and watched
    compile/     native code: instances as lanes, blocks in registers, no compiler needed
    circuit/     a kernel as functions with inputs and outputs, on a pool of threads
    derive/      the kernel that gives the gradients of another
    operator/    a kernel as an operator of torch, and as a module of a model

With open_file.py (a file's text), files.py (kernels of a folder, by name and digest) and arguments.py (names and files to arrays). Only
operator/ loads torch. Not here: layers whose models have kernels (model, stack).
"""
