"""The dashboard: a local web page that shows layers, runs, plans, experiments and the grid. It owns no state.

Read in this order: server.py (the app and the process), gate.py (who may come in, and what every answer says to the browser),
context.py (the project and its store, as they are now), answer.py (how a page's function becomes a route), pages/ (one module a page: what
it can be asked for), and static/ (what the browser gets: app.js is the shell, pages.js its table, pages/NAME.js one page each).
Of layers: layers.py (all of them, and what a build would do), tree.py (as rows with lines), layer_detail.py (one in full).
Of runs: runs.py (which there are, and how they stand; trial_runs.py: which are of experiments), history.py (an events.jsonl as columns,
read on as it grows), curves.py (what it tells, over steps, epochs or time), workers.py (who did how much of it), lttb.py (fewer points,
the same curve), live.py (news to browsers).
Of layers and runs side by side: comparison.py and module_changes.py (from the store alone), judgement.py (what answers on the same samples
say, pure), judging.py and judge_process.py (who asks the layers, beside the dashboard, which never loads torch).
Of experiments: report_pictures.py and picture_process.py (the pictures of a report). Of kernels: kernel_list.py, kernel_process.py.
child.py starts such processes, with a deadline.

A page is two files: pages/NAME.py with `routes(context)` below /api/NAME/, and static/pages/NAME.js with `show(main, params, tools)`;
each is one line in a table (pages/__init__.py, static/pages.js). Why it is so: docs/adr/0022-the-dashboard-owns-no-state.md.
Not here: what it shows, which is read from the store (store, stack), the run events, the plan ledger, experiments and the grid's server.
"""
