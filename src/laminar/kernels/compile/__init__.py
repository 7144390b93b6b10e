"""Compile: kernels to native code by LLVM (llvmlite), without a compiler on the machine. Instances are lanes, and blocks in registers.

Read in this order:

    native.py                        the way in: `compiled`, `Native.run`; with cache.py (code on the disk)
    variants.py                      code for one instance, and for several
    together.py, pool.py, board.py   a call on several threads; the threads; the native code that they share work by
    bench.py                         how fast it is
    build.py                         a kernel to LLVM's text: fast code, code that checks everything, and which of them a run needs
    plan.py                          how many instances at once: rows x vectors x lanes; may they run at once?
    boxes.py                         the digits of analyse/space.py as loops without a division; boxes of instances
    started.py                       tests that proofs (analyse/proofs.py) need as a run starts, and what code may leave away then
    differs.py, grid.py              what differs among the instances of a block, and values of a block
    body.py, statements.py, branches.py, expressions.py   the tree to operations on blocks; masks where ways part
    interrupts.py                    Ctrl-C, and other threads, while a call takes long
    memory.py, atomics.py            elements of arrays: side by side, gathered, one after another
    instrumented.py, regions.py, steady.py   code that counts, for the emulator's report
    watch.py, shadows.py, marks.py, side_by_side.py   and looks for races and for what has no value
    arithmetic.py, functions.py, elementary.py, real.py   operators, and functions of mathematics as polynomials
    entry.py, sizes.py, assembly.py, host.py              the function that is called; LLVM's text; the machine it is for

Not here: barriers (circuit/phases.py makes kernels without them), counts of what the tree says (emulate).
"""
