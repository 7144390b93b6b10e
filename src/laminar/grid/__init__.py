"""Grid: train a layer on machines that nobody controls: desktops that come and go, differ tenfold, and may be wrong or hostile.

One server hands out work; nodes fetch it, compute, and bring answers; they never talk to each other. Read in this order:

    states.py        the life of a result, as one table
    wire/            what goes between server and nodes; signatures
    db/              what a grid remembers (SQLite, PostgreSQL); desk.py: everything is written over it, many at a time
    daemons/         small loops over rows in one state: make tasks, give them out, see leases end, validate, learn, clean up
    trust/           admission, reputation, agreement, accounts of what is kept back, robust sums
    server/          HTTP around it; status page, metrics, OpenAPI
    node/            a desktop: its owner first
    describe.py, settings.py, compressor.py     a job as strangers get it, and as the server goes by it
    train.py, commander.py                      the strategy as a build sees it; commands to a server
    waiting.py, never_sent.py                   what a build says of a run that does not come forward, or loses what it learns
    population/, pricing/                       desktops by the thousand on virtual time; what a strategy would take, for `laminar plan`

Rounds, quorums and ages are decided by parallel/aggregate, as for all strategies; compression is parallel/compress; data is data/.
Why it is so: docs/adr/0017-a-grid-of-strangers.md.
"""
