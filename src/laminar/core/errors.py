"""Errors: a catalogue, so that every failure a user can meet has a code, an exit code and a page in docs/errors.

    LaminarError
      L0xx  the stack file, the command line          exit 2
      L1xx  data                                      exit 2
      L2xx  models: factories, freeze, replace        exit 2
      L3xx  the store                                 exit 3
      L4xx  remotes and peers                         exit 4
      L6xx  training                                  exit 6
      L7xx  kernels                                   exit 2
      L9xx  a bug of ours                             exit 70

A message says what happened, with the values; what was expected; and the hint is a command or an edit that fixes it.
Codes are never reused.
"""

from __future__ import annotations

from typing import Final

from laminar.core import printable

CATALOGUE: Final[dict[str, str]] = {
    # the stack file and the command line
    "L001": "there is no laminar.toml",
    "L002": "laminar.toml is not valid TOML",
    "L003": "unknown key in laminar.toml",
    "L004": "wrong type or value in laminar.toml",
    "L005": "a layer stands on itself",
    "L006": "unknown layer, data set or ref",
    "L007": "an ambiguous short id",
    "L008": "a bad argument",
    "L009": "the folder already holds a stack",
    "L010": "nothing to roll back or redo",
    "L011": "a library that is not installed",
    "L012": "a split that the model does not allow",
    "L013": "a machine file that cannot be used",
    "L014": "no plan fits",
    "L015": "a search that has no time",
    "L016": "a sweep that cannot be used",
    "L017": "unknown axis of a sweep",
    "L018": "no such experiment",
    "L019": "a sweep of no trials, or of too many",
    "L020": "another experiment has this name",
    # data
    "L101": "a data file is missing",
    "L102": "a data file cannot be read",
    "L103": "the data set is empty",
    "L104": "classes do not fit the data",
    "L105": "unknown data source",
    "L106": "samples of different shapes",
    "L107": "a download failed",
    "L108": "a project's data function failed",
    "L109": "a bad setting of a data set",
    "L110": "samples and labels do not fit together",
    "L111": "an index of images that will not be used",
    "L112": "no mirror gives the file",
    "L113": "a sample larger than its class",
    # models
    "L201": "a model factory cannot be found",
    "L202": "a model factory failed",
    "L203": "unknown module path",
    "L204": "the model does not fit the data",
    "L205": "the parent's tensors do not fit the model",
    "L206": "the model cannot be exported",
    "L207": "a graph that will not be loaded",
    "L208": "a file of weights that cannot be read",
    "L209": "a model that cannot be split",
    "L210": "a foreign graph that failed",
    # the store
    "L301": "no space left on the disk",
    "L302": "no permission to read or write",
    "L303": "a corrupt object",
    "L304": "a missing object",
    "L305": "no such layer in the store",
    "L306": "not a store, or of a newer format",
    "L307": "the store is busy",
    # remotes
    "L401": "a remote cannot be reached",
    "L402": "a remote does not have it",
    "L403": "what arrived is not what was asked for",
    "L404": "a remote that cannot be written",
    "L405": "an address that cannot be listened on",
    "L406": "too few workers",
    "L407": "a cluster that cannot be reached",
    "L408": "a project too large to be sent",
    # the grid
    "L501": "a grid cannot be reached",
    "L502": "not the key that was expected",
    "L503": "turned away by a grid",
    "L504": "a layer that strangers cannot train",
    "L505": "a grid's database that cannot be used",
    "L506": "a grid that is served already",
    "L507": "a grid's daemon of another package",
    # training
    "L601": "the loss is not finite",
    "L602": "a frozen tensor changed",
    "L603": "nothing to train",
    "L604": "a checkpoint that does not fit",
    "L605": "the processor cannot compute in this dtype",
    "L606": "the model failed while it was trained",
    "L607": "too little shared memory for the workers",
    "L608": "no worker is left",
    "L609": "the machine is too busy to be measured",
    "L610": "every trial of an experiment failed",
    "L611": "the process of a trial died",
    # kernels
    "L701": "a kernel that breaks a rule of the language",
    "L702": "a kernel's parameters do not fit",
    "L703": "a kernel that does something wrong as it runs",
    "L704": "a kernel that does not end",
    "L705": "a kernel without a derivative",
    "L706": "a kernel that is not here",
    # ours
    "L900": "a bug in Laminar",
}

DOCS: Final = "https://github.com/laminar-train/laminar/tree/main/docs"
"""As in pyproject.toml. An installed Laminar has no docs beside it."""

_EXIT: Final[dict[str, int]] = {"L0": 2, "L1": 2, "L2": 2, "L3": 3, "L4": 4, "L5": 5, "L6": 6, "L7": 2, "L9": 70}
_EXIT_OF: Final[dict[str, int]] = {"L607": 2}  # more workers were asked for than the machine can hold: an edit helps


def docs(page: str) -> str:
    """Where a page of the documentation can be read, for hints: `docs("ref-store.md")`."""
    return f"{DOCS}/{page}"


class LaminarError(Exception):
    """What happened (`message`), how to mend it (`hint`), and the `code` of its page in docs/errors."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        if code not in CATALOGUE:
            raise ValueError(f"{code} is not in the catalogue of core/errors.py")
        # names and texts of strangers stand in both, and wherever an error is shown a terminal may be
        self.message = printable.lines(message)
        self.hint = printable.lines(hint)
        super().__init__(self.message)
        self.code = code

    @property
    def exit_code(self) -> int:
        return _EXIT_OF.get(self.code, _EXIT[self.code[:2]])

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]" + (f"\n  fix: {self.hint}" if self.hint else "")
