"""Trust: how much an answer of a stranger is worth. Pure: numbers in, verdicts out.

Read in this order: admission.py (what is refused on arrival, each reason by name), reputation.py (who is checked, and how often),
agreement.py (do answers to one task agree, and who is wrong if not), accounts.py (is a compressed answer a part of the work that was
done), robust.py (putting answers together so that a few bad ones do little).
Not here: what is done with a verdict (daemons), who may come at all (server).
"""
