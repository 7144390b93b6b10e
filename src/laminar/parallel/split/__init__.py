"""Split: one layer trained by workers that hold parts of the model. None of them needs to have room for all of it.

    dims.py         what a dimension is made of, and on which axis of the mesh it lies (no torch)
    rules.py        which dimension goes on which axis, as the user wrote it (no torch)
    grid.py         who stands where, and on one line with whom (no torch)
    trace.py        a module as a list of operators
    place.py        every value and tensor gets a layout, by the rules of operators in ops/
    operator_rule.py   which arguments a rule declares, and what becomes of others
    backward.py     which operators give gradients back, and to which of their operands
    named.py        which dimensions each module has; rules about others are refused
    moves.py        from one layout to another
    program.py      a placed model as one worker runs it; kernels.py: its operators; weight_grads.py: gradients of weights on their own
    collectives.py  exchanges that gradients go back through, on a line (line.py) in shared memory or over gloo (lines.py)
    whole.py        parts of tensors, and the whole ones in checkpoints; module.py, team.py: what the loop trains
    prepare.py, chief.py, member.py   the processes

Not here: splitting by data alone (sync/, apart/), by operators (stages/, which runs these programs), the loop of one process (train).
"""
