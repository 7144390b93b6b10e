"""Population: thousands of desktops on virtual time, against the server's real code (EmBOINC's method: Estrada, Taufer, Anderson, 2009).

Read in this order: hall.py (a server in a box: database in memory, no network, a clock of our own), problem.py (something small that is
really learned), behaviour.py (honest nodes and every kind of liar), churn.py (when desktops are on, and how fast they are), simulate.py
(the loop and its report).
One seed is one trace, to the last digit: nothing here looks at the real clock or draws an unseeded number.
"""
