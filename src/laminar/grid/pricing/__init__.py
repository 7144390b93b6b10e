"""Pricing: what a round on a grid would take, for `laminar plan`. The server's real code is played on virtual time, with seeds.

Read in this order: scene.py (what is known of the desktops, of a task and of its bytes), play.py (desktops and the server on the clock),
price.py (the price of a strategy: plan/desktops.py says what is asked), those_there.py (a grid that is served, as a machine to plan for).
Leases, quorums, deadlines, who is checked: none of it is here. The hall of population/ runs the daemons that decide it.
"""
