"""Daemons: small loops over rows that are in one state, each of them killable at any instant (BOINC's roles).

    work_generator.py   makes the tasks of a round that has opened, or keeps some ready
    feeder.py           a few results that wait, in memory, so that a request needs no search
    scheduler.py        gives a node what suits it
    transitioner.py     sees leases that ended and rounds whose time is up
    validator.py        compares answers (trust/agreement.py), and says which are good
    assimilator.py      good answers go through the aggregator into the next version (learner.py: the only file with torch)
    file_deleter.py     bytes that nobody needs any more
    purger.py           rows that nobody needs any more
    office.py           all of them in one process, woken by what happens; or one of them, for `laminar grid daemon`

Each is a function of a transaction and the time. What one leaves for another to do is in the database, never in memory.
"""
