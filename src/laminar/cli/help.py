"""Help: the verbs, and the page about them that `laminar --help` prints. Nothing is loaded for it, not even typer."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import Final

# verb: (module in laminar.cli, one line of help), in the order in which people meet them
VERBS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a commented laminar.toml and models.py that build as they stand."),
    "build": ("build", "Train what is missing or changed, bottom up."),
    "plan": ("plan", "Which strategy would be fastest for a layer, and why."),
    "plan check": ("plan_check", "Predictions of plans so far, and what was measured then."),
    "join": ("join", "Take part in a training under way, as one more worker."),
    "status": ("status", "What a build would do, and why, layer by layer."),
    "explain": ("explain", "Every input of a layer's key; on a miss, which one changed from what to what."),
    "log": ("log", "What each layer has been, newest first."),
    "show": ("show", "One layer: parent, tensors, metrics, recipe, where it was trained."),
    "diff": ("diff", "Two layers: inputs, tensors and metrics that differ."),
    "rollback": ("rollback", "Go back to the layer before, or to any earlier one."),
    "redo": ("redo", "Undo the last rollback."),
    "tag": ("tag", "Give a layer a name that stays, such as base:v1; without arguments, list the tags."),
    "evaluate": ("evaluate", "Metrics of a layer on a data set."),
    "predict": ("predict", "What a layer says of images or arrays."),
    "ui": ("ui", "Open the dashboard: layers, runs, plans and the grid as a local web page."),
    "report": ("report", "An HTML page with the layers and their curves."),
    "experiment run": ("experiment_run", "Train the variants that a sweep file describes, and hold them against a benchmark."),
    "experiment show": ("experiment_show", "What an experiment has shown so far."),
    "experiment list": ("experiment_list", "The experiments of this store."),
    "experiment compare": ("experiment_compare", "Two experiments: what both have tried, the second in per cent of the first."),
    "experiment report": ("experiment_report", "An experiment as a page, PDF, pictures and CSV: against the benchmark, with intervals."),
    "experiment rm": ("experiment_rm", "Remove an experiment."),
    "experiment sequential": ("experiment_sequential", "One process, epoch by epoch, beside published accuracy and time."),
    "experiment cores": ("experiment_cores", "Cores 1 to 4, as workers and as threads."),
    "experiment neurons": ("experiment_neurons", "Width of the hidden layer."),
    "experiment depth": ("experiment_depth", "Number of hidden layers."),
    "experiment epochs": ("experiment_epochs", "Number of epochs."),
    "experiment scaling": ("experiment_scaling", "Strong and weak scaling over workers."),
    "experiment batch": ("experiment_batch", "Batch size against steps and time to a target, with and without LARS and LAMB."),
    "experiment strategies": ("experiment_strategies", "Strategies against each other, to a target accuracy."),
    "experiment backprop": ("experiment_backprop", "Back-propagation in parallel: pipelines and a mesh against one process."),
    "experiment speedup": ("experiment_speedup", "Workers against batch size: the speed-up for each batch."),
    "experiment shape": ("experiment_shape", "Width against depth, at equal numbers of parameters."),
    "experiment layout": ("experiment_layout", "Training data in memory: batches per second by form and order."),
    "experiment flowers": ("experiment_flowers", "Flowers: local, single node, and 6 workers with 3 servers."),
    "experiment layers": ("experiment_layers", "Classic development against development in layers."),
    "experiment grid": ("experiment_grid", "A desktop grid, synchronous and asynchronous."),
    "data show": ("data_show", "What a data set holds: classes, sides, fragments, bytes; and a picture of it."),
    "data sample": ("data_sample", "One random local sample of a data set that is cut into fragments."),
    "data index": ("data_index", "Write the index of a folder of images: what mirrors serve."),
    "data serve": ("data_serve", "Be a mirror: serve a folder of images over HTTP and FTP."),
    "data pull": ("data_pull", "Fetch the images of a data set from its mirrors, checked, into the cache."),
    "kernel check": ("kernel_check", "A kernel's parameters, and what is proved of it: bounds, races."),
    "kernel show": ("kernel_show", "A kernel's data objects and its operators as a tree, before it runs."),
    "kernel run": ("kernel_run", "Run a kernel with every access counted and watched."),
    "kernel graph": ("kernel_graph", "A kernel's circuit: its functions, who waits for whom, which are independent."),
    "kernel bench": ("kernel_bench", "Time a kernel's native code: alone, as lanes, on several threads."),
    "cluster check": ("cluster_check", "What the workers of a cluster are like, and how far they are from each other."),
    "cluster manifests": ("cluster_manifests", "Kubernetes manifests of a build on several pods."),
    "grid serve": ("grid_serve", "Serve a grid: hand out the training of layers to machines that nobody controls."),
    "grid join": ("grid_join", "Lend this machine to a grid, within what you allow."),
    "grid train": ("grid_train", "Train layers on a grid."),
    "grid status": ("grid_status", "The grid in figures."),
    "grid nodes": ("grid_nodes", "Its machines: speed, reputation, credit."),
    "grid tasks": ("grid_tasks", "The newest tasks, and what became of them."),
    "grid rounds": ("grid_rounds", "The newest rounds."),
    "grid ban": ("grid_ban", "Turn a node away for good."),
    "grid trust": ("grid_trust", "Take a node's word."),
    "grid token": ("grid_token", "Make, list or revoke tokens for nodes."),
    "grid stop": ("grid_stop", "End a run before its time."),
    "grid leave": ("grid_leave", "Leave a grid for good, and owe it nothing."),
    "grid daemon": ("grid_daemon", "Some of a grid's daemons by themselves, on PostgreSQL."),
    "grid simulate": ("grid_simulate", "Thousands of desktops on virtual time, against the server's real code."),
    "grid pause": ("grid_pause", "Give out nothing more for now; or let this machine rest."),
    "grid resume": ("grid_resume", "Go on."),
    "push": ("push", "Copy a layer to a remote."),
    "pull": ("pull", "Copy a layer from a remote."),
    "remote": ("remote", "List, add or remove names for remotes."),
    "import": ("import_", "Make a layer of a .safetensors, .pt or .pt2 file."),
    "export": ("export", "Write a layer as .safetensors, .pt2 or .onnx."),
    "verify": ("verify", "Check that the store is as it was written; --repair mends it."),
    "gc": ("gc", "Remove what nothing refers to."),
    "doctor": ("doctor", "Look at the machine, the libraries, the store and the stack."),
    "demo": ("demo", "Build the example stack, change its top layer, build again, and report."),
}

USAGE: Final = "VERB [ARGS]..."
SUMMARY: Final = "Train neural networks in layers, in parallel, on the machines you have."
FOLDER: Final = "Work as if started in DIR."
DEBUG: Final = "Show the traceback of an error."
VERSION: Final = "Print the version."
END: Final = (
    "laminar VERB --help explains a verb. "
    "Exit codes: 0 done, 2 your input, 3 the store, 4 a remote, 5 the grid, 6 training failed, 70 our bug."
)

WIDEST: Final = 120  # columns; longer lines are hard to read


def page(width: int) -> str:
    options = {"-C DIR": FOLDER, "--debug": DEBUG, "--version": VERSION, "-h, --help": "Show this message and exit."}
    verbs = {verb: line for verb, (_, line) in VERBS.items()}
    parts = [f"Usage: laminar [OPTIONS] {USAGE}\n", _indented(SUMMARY, width), "Options:"]
    parts += [_two_columns(options, width), "Verbs:", _two_columns(verbs, width), _indented(END, width)]
    return "\n".join(parts).rstrip()


def terminal_width() -> int:
    """Columns to write in; shutil knows them too, but takes longer to load than the page to print."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        try:
            columns = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
        except (OSError, ValueError):
            columns = 80
    return max(50, min(columns or 80, WIDEST) - 2)


def _indented(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ") + "\n"


def _two_columns(rows: dict[str, str], width: int) -> str:
    first = max(map(len, rows)) + 2
    lines = [
        textwrap.fill(said, width, initial_indent=f"  {word:{first}}", subsequent_indent=" " * (first + 2)) for word, said in rows.items()
    ]
    return "\n".join(lines) + "\n"
