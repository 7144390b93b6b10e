"""Operator: a kernel as an operator of torch, and as a module of a model.

    leaky = laminar.kernel("leaky.c")       # checked when it is read, compiled when it is first called
    y = leaky(x, slope=0.1)

Read in this order:

    find.py          `laminar.kernel`: which file is meant, and who is told that it was read
    function.py      KernelFunction: what is called; the way without detours
    bind.py          tensors and values to parameters; L702
    routine.py       a kernel with what goes in, what is made and what comes out: of the kernel and of its adjoint alike
    engine.py        native code behind it
    decide.py, split.py   which way long calls run, by measured times; and calls that do
    backward.py      the adjoint: `kernel_backward` of the file, or derived; what of a call it needs
    autograd.py      gradients while code runs
    again.py         gradients of gradients
    library.py       the same for tracing, export and torch.compile: laminar_kernels::leaky_<sha256>
    provide.py       the operators that graphs name, from files that lie here
    module.py        KernelModule

This is the only package of kernels that loads torch. Not here: that a layer's key has the kernel's text in it (core/closure.py).
"""
