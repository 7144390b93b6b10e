"""Emulate: a kernel run one instance after another, with every access counted and watched. The reference for all other ways of running.

Read in this order:

    run.py                          the way in: `emulate`
    report.py                       what comes out: counts by memory, object and line; findings; as text and JSON
    findings.py                     what went wrong, merged by place
    translate.py                    a kernel to a Python function; with writer.py (its lines), statements.py, expressions.py, accesses.py
    trace.py                        who wrote what each read got
    held.py                         what is proved, held against a run
    arithmetic.py                   values of 32 and 64 bits, and the functions of mathematics
    strides.py                      how far neighbours' accesses are apart
    barriers.py                     instances that wait for each other

Not here: names and files to arrays (arguments.py, one package up), native code with the same counts (compile).
"""
