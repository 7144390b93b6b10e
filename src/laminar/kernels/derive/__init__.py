"""Derive: the kernel that gives the gradients of another, in the same language; reverse mode on the tree (Speelpenning 1980).

    text = adjoint(kernel)            # a file with `kernel_backward`: it is read, checked, emulated and compiled as any other

Read in this order:

    adjoint.py     the way in: parameters, and the two sweeps put together
    refuse.py      what has no derivative: L705, by statement and line
    normal.py      a body in the few forms that the sweeps know
    active.py      what depends on the inputs whose gradients are wanted
    partials.py    the table of derivatives, and from an expression to what it adds to the gradients of its parts
    sweep.py       statements: values forwards, gradients backwards; what is overwritten is kept; fill.py: whole arrays
    loops.py       loops that count, backwards; turns.py: their iterations; extremes.py: the largest or least of many
    once.py        arrays no element of which is written twice
    prune.py       what nobody needs is left out again; tidy.py: variables that only pass a value on
    owners.py      gradients that only one instance adds to need no atomic
    gather.py      the others by their elements, with digits.py: an instance for each, and no atomics, where indices can be turned round
    by_hand.py     an adjoint that somebody wrote: whether its parameters go with those of the kernel

Not here: how gradients get to torch (operator).
"""
