"""Analyse: what is proved of a kernel without running it. Pure Python, no LLVM and no torch.

Read in this order:

    form.py        whole numbers as sums of products of symbols
    prove.py       is a form never negative? Symbols are replaced by their bounds, the latest first
    varying.py     what may differ among instances
    counted.py     loops that count
    values.py      expressions to forms; conditions.py: what conditions tell
    start.py       what is known before the first statement; granted.py: what a run has to keep to, for proofs to hold
    through.py     the way through a kernel
    facts.py       `Facts.of(kernel)`: forms, strides and ranges at each place of a kernel
    space.py       the instances' numbers in digits: `row = i / cols; col = i % cols`
    terms.py, intervals.py, known.py, ranges.py   bounds as they are known when a run starts, and the tests that they need
    proofs.py      `Proofs.of(kernel, space)`: facts of accesses and loops as data: of what, in which runs, why
    races.py       accesses of different instances that never meet, by dependence tests; witness.py: two that do
    replay.py      a witness, as the emulator sees it
    assigned.py    variables that are read before they have a value
    barriers.py    barriers that not all instances reach, and what they keep apart
    live.py        what is needed behind a barrier
    written.py     outputs of which every element is written
    verdicts.py    all of it: proved, a witness, or checked as it runs; never silence

Arrays are taken to have the shapes that the text says, and instances to be 0 <= instance < count.
Ids are of nodes of the very tree that was given: analyse the kernel that is compiled. Not here: what runs show (emulate).
"""
