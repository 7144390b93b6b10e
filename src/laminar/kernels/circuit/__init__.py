"""Circuit: a kernel as functions with inputs and outputs, executed by a pool of threads as their inputs become ready.

Read in this order:

    uses.py, cost.py, fixed.py  what statements read, set and take; what is known before they run
    regions.py, groups.py       what may run apart, and what stays together
    function.py, lift.py        a function is a kernel again; local arrays that several use
    build.py                    `build(kernel)`: functions, conditions, loops
    apart.py                    every two functions: independent, dependent, or told by the values of a run
    footprints.py, python_terms.py   which elements a task uses, as boxes
    estimate.py                 rounds of loops and seconds of functions, by a call's values
    schedule.py, guess.py       which are ready; when one is begun on a guess, and what that brought
    issue.py, pool.py, run.py   tasks in the order of the program; threads; `run_circuit`
    edges.py, report.py, picture.py   for people
    phases.py, native_phases.py kernels with barriers as kernels without; as native code; counted_phases.py: with counters

Not here: how one function is run (compile, emulate); threads for many instances of one function (compile).
"""
