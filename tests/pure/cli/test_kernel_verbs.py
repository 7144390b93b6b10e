"""`laminar kernel check` and `laminar kernel run`, as they are called."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LEAKY = """\
/* leaky.c: one instance per element */
void kernel(int i, int n, float slope, const float x[n], float y[n]) {
    float v = x[i];
    if (v < 0.0f) v = slope * v;
    y[i] = v;
}
"""
SHIFT = """\
void kernel(int i, int n, const float x[n], float y[n]) {
    y[i] = x[i + 1];
}
"""


class Verbs:
    """`laminar` in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._monkeypatch, self._capsys = folder, monkeypatch, capsys
        monkeypatch.chdir(folder)

    def __call__(self, line: str) -> tuple[int, str, str]:
        from laminar.cli import main

        self._monkeypatch.setattr(sys, "argv", ["laminar", *line.split()])
        with pytest.raises(SystemExit) as left:
            main()
        printed = self._capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


@pytest.fixture
def verbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verbs:
    found = Verbs(tmp_path, monkeypatch, capsys)
    found.write("leaky.c", LEAKY)
    found.write("shift.c", SHIFT)
    return found


def test_check_shows_parameters_and_verdicts(verbs: Verbs) -> None:
    code, out, err = verbs("kernel check leaky.c")
    assert (code, err) == (0, "")
    assert "float x[n]   array     in" in out and "float y[n]   array     out" in out
    assert "3:15: bounds of `x`: proved" in out and "race of `y`: proved" in out
    assert re.search(r"0 with a witness\nsha256 [0-9a-f]{64}\n$", out)


def test_check_as_json(verbs: Verbs) -> None:
    shown = json.loads(verbs("kernel check leaky.c --json")[1])
    (kernel,) = shown["kernels"]
    assert (shown["file"], shown["error"], kernel["name"]) == ("leaky.c", None, "kernel")
    assert kernel["parameters"][3] == {
        "name": "x", "role": "array", "type": "float", "declared": "float x[n]", "mode": "in", "line": 2, "column": 52
    }  # fmt: skip
    assert {one["verdict"] for one in kernel["verdicts"]} == {"proved"}


def test_check_of_a_broken_rule(verbs: Verbs) -> None:
    verbs.write("bad.c", "void kernel(int i, int n, float *p) {}\n")
    code, out, err = verbs("kernel check bad.c")
    assert (code, out) == (2, "")
    assert err.startswith("error L701: bad.c:1:33: `p` is a pointer")
    assert "  fix: an array: `float p[n]`" in err and "^" in err
    code, out, err = verbs("kernel check bad.c --json")
    assert code == 2 and json.loads(out)["error"]["rule"] == "K04" and "error L701" in err


def test_check_with_a_witness(verbs: Verbs) -> None:
    code, out, err = verbs("kernel check shift.c")
    assert code == 2 and "bounds of `x`: a witness" in out
    assert err.startswith("error L703: shift.c:2:12: ") and "fix: laminar kernel run shift.c" in err
    assert verbs("kernel check shift.c --json")[0] == 2


def test_check_looks_at_all_kernels_of_a_file(verbs: Verbs) -> None:
    verbs.write("two.c", LEAKY + "void kernel_backward(int i, int n, const float grad_y[n], float grad_x[n]) { grad_x[i] = grad_y[i]; }\n")
    shown = json.loads(verbs("kernel check two.c --json")[1])
    assert [one["name"] for one in shown["kernels"]] == ["kernel", "kernel_backward"]
    verbs.write("two.c", LEAKY + "void kernel_backward(int i, int n, const float grad_y[n]) { grad_y[i] = 1; }\n")
    code, _, err = verbs("kernel check two.c")
    assert code == 2 and "K14" in err and "two.c:7:" in err


def test_show_has_objects_and_operators(verbs: Verbs) -> None:
    code, out, err = verbs("kernel show leaky.c")
    assert (code, err) == (0, "")
    assert re.search(r"^x +float +\[n\] +array, in +global +2:52 +3 *$", out, re.MULTILINE)
    assert "3:15  │  └─ value: load x float\n" in out
    shown = json.loads(verbs("kernel show leaky.c --json")[1])
    (kernel,) = shown["kernels"]
    assert (shown["file"], kernel["name"], kernel["tree"]["operator"]) == ("leaky.c", "kernel", "kernel")
    assert [one["name"] for one in kernel["objects"]] == ["i", "n", "slope", "x", "y", "v"]


def test_show_of_all_kernels_of_a_file_and_of_none(verbs: Verbs) -> None:
    verbs.write("two.c", LEAKY + "void kernel_backward(int i, int n, const float grad_y[n], float grad_x[n]) { grad_x[i] = grad_y[i]; }\n")
    assert [one["name"] for one in json.loads(verbs("kernel show two.c --json")[1])["kernels"]] == ["kernel", "kernel_backward"]
    verbs.write("bad.c", "void kernel(int i, int n, float *p) {}\n")
    code, out, err = verbs("kernel show bad.c")
    assert (code, out) == (2, "") and "K04" in err


def test_run_with_a_trace(verbs: Verbs) -> None:
    line = "kernel run leaky.c --param x=@x.npy --param slope=0.5 --trace"
    np.save(verbs.folder / "x.npy", np.array([1, -2, 3], "float32"))
    code, out, err = verbs(line)
    assert (code, err) == (0, "")
    assert re.search(r"^5:12 +v +register +3:11 +itself +instance 0 gets v +2$", out, re.MULTILINE)
    assert re.search(r"^5:12 +v +register +4:19 +itself +instance 1 gets v +1$", out, re.MULTILINE)
    shown = json.loads(verbs(f"{line} --json")[1])
    assert {"line": 4, "column": 19} in [one["from"] for one in shown["trace"]["flows"]]
    assert json.loads(verbs("kernel run leaky.c --param x=@x.npy --param slope=0.5 --json")[1])["trace"] is None
    code, _, err = verbs(f"{line} --engine native")
    assert code == 2 and "--trace: only the emulator keeps" in err


def test_run_with_the_account_of_guesses(verbs: Verbs) -> None:
    slow = "float slow(float v) { for (int t = 0; t < 3000; t++) v = v * 0.9f + 0.1f; return v; }\n"
    head = "void kernel(int i, int n, const float x[n], float y[n]) {\n"
    verbs.write("split.c", f"{slow}{head} float a = slow(x[i]);\n float b = 0;\n if (a > 0) b = slow(a + 1);\n y[i] = b;\n}}\n")
    code, out, err = verbs("kernel run split.c --param x=ones:2 --guesses")
    assert (code, err) == (0, "")
    assert re.search(
        r"^guesses on 2 threads: \d started, \d taken, \d thrown away; [\d.]+ ms of work won, [\d.]+ ms for nothing$", out, re.M
    )
    shown = json.loads(verbs("kernel run split.c --param x=ones:2 --guesses --threads 3 --json")[1])["guesses"]
    assert shown["runs"] == 1 and shown["started"] == shown["committed"] + shown["thrown_away"]
    assert json.loads(verbs("kernel run split.c --param x=ones:2 --json")[1])["guesses"] is None


def test_no_guesses_where_instances_wait(verbs: Verbs) -> None:
    verbs.write("waits.c", "void kernel(int i, int n, float y[n]) { barrier(); y[i] = 1; }\n")
    code, out, err = verbs("kernel run waits.c --instances 2 --guesses")
    assert (code, out) == (2, "") and "waits.c has barriers" in err
    code, out, err = verbs("kernel run shift.c --param x=ones:2 --guesses")
    assert code == 2 and "L703" in err and "guesses" not in out, "a kernel with findings is not run again"


def test_run_saves_outputs(verbs: Verbs) -> None:
    x = np.array([1, -2, 3], "float32")
    np.save(verbs.folder / "x.npy", x)
    code, out, err = verbs("kernel run leaky.c --param x=@x.npy --param slope=0.5")
    assert (code, out, err) == (0, "y.npy: float32 [3]\n", "")
    assert np.load(verbs.folder / "y.npy").tolist() == [1, -1, 3]
    code, out, _ = verbs("kernel run leaky.c --param x=@x.npy --param slope=0.5 --param y=zeros:3 --instances 3 --out made/here --seed 3")
    assert (code, out) == (0, "made/here/y.npy: float32 [3]\n")
    assert np.load(verbs.folder / "made" / "here" / "y.npy").tolist() == [1, -1, 3]


def test_run_with_statistics(verbs: Verbs) -> None:
    code, out, _ = verbs("kernel run leaky.c --param x=ones:16 --param slope=0.5 --stats")
    assert code == 0
    assert out.startswith("16 instances\n\nmemory    reads  writes  bytes\nglobal       16      16    128\n")
    assert out.endswith("y.npy: float32 [16]\n")


def test_run_as_json(verbs: Verbs) -> None:
    code, out, err = verbs("kernel run leaky.c --param x=random:16:7 --param slope=0.5 --json --engine emulator")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert shown["outputs"] == {"y": "y.npy"} and shown["findings"] == []
    assert shown["counts"]["global"] == {"reads": 16, "writes": 16, "bytes": 128}


@pytest.mark.parametrize("name", ["leaky.c", "shift.c"])
def test_native_code_says_the_same(verbs: Verbs, name: str) -> None:
    line = f"kernel run {name} --param x=random:16:7 --json{' --param slope=0.5' if name == 'leaky.c' else ''} --engine"
    (code, emulated, err), native = verbs(f"{line} emulator"), verbs(f"{line} native")
    assert (code, err) == (native[0], native[2])
    one, other = json.loads(emulated), json.loads(native[1])
    assert {name: one[name] for name in ("counts", "lines", "findings")} == {name: other[name] for name in ("counts", "lines", "findings")}
    assert verbs(f"{line} native --seed 1")[0] == 2


def test_findings_end_with_2(verbs: Verbs) -> None:
    code, out, err = verbs("kernel run shift.c --param x=ones:8")
    assert (code, out) == (2, "y.npy: float32 [8]\n")
    assert err == (
        "error L703: shift.c:2:12: instance 7 reads x[8], the array has 8 elements\n"
        "      y[i] = x[i + 1];\n"
        "             ^\n"
        "  fix: a larger array, fewer instances, or a test of the index before the access\n"
    )
    code, out, err = verbs("kernel run shift.c --param x=ones:8 --json")
    assert code == 2 and json.loads(out)["findings"][0]["kind"] == "out-of-bounds" and "L703" in err
    assert np.load("y.npy").tolist() == [1] * 7 + [0]


def test_many_findings_are_cut_short(verbs: Verbs) -> None:
    lines = "\n".join(f"    y[i] = x[i + {k}];" for k in range(8, 40))
    verbs.write("many.c", f"void kernel(int i, int n, const int x[n], int y[n]) {{\n{lines}\n}}\n")
    code, _, err = verbs("kernel run many.c --param x=ones:8")
    assert code == 2 and err.count("^") == 20 and "and 12 more findings" in err


def test_empty_arrays_have_no_values(verbs: Verbs) -> None:
    verbs.write("add.c", "void kernel(int i, int n, float y[n]) { y[i] += 1; }\n")
    code, _, err = verbs("kernel run add.c --param y=empty:4")
    assert code == 2 and "reads y[0], which nobody wrote (4 times)" in err
    assert verbs("kernel run add.c --param y=zeros:4")[0] == 0


def test_an_input_is_not_written_over(verbs: Verbs) -> None:
    verbs.write("add.c", "void kernel(int i, int n, float y[n]) { y[i] += 1; }\n")
    np.save(verbs.folder / "y.npy", np.zeros(4, "float32"))
    code, _, err = verbs("kernel run add.c --param y=@y.npy")
    assert code == 2 and "error L008" in err and "--out" in err
    assert np.load(verbs.folder / "y.npy").tolist() == [0] * 4
    assert verbs("kernel run add.c --param y=@y.npy --out new")[0] == 0
    assert np.load(verbs.folder / "new" / "y.npy").tolist() == [1] * 4


def test_a_kernel_that_does_not_end(verbs: Verbs) -> None:
    verbs.write("spin.c", "void kernel(int i, int n, int y[n]) {\n    int k = 1;\n    while (k > 0) k = 1;\n}\n")
    code, _, err = verbs("kernel run spin.c --instances 1 --steps 1000")
    assert code == 2
    assert err.startswith("error L704: spin.c:3:5: the loop went on for more than 1,000 steps\n")
    assert "  fix: mend the loop's condition, or --steps 10000" in err
    code, _, err = verbs("kernel run spin.c --instances 1 --steps 1000 --engine native")
    assert code == 2 and err.startswith("error L704: spin.c:3:5: ") and "  fix: mend the loop's condition, or --steps 10000" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("gone.c", "L008", "gone.c"),
        (".", "L008", "folder"),
        ("noise.c", "L008", "UTF-8"),
        ("leaky.c", "L702", "`x`"),
        ("leaky.c --param x=ones:4", "L702", "`slope`"),
        ("leaky.c --param x=ones:4 --param slope=0.5 --instances 0", "L702", "0 instances"),
        ("leaky.c --param x=ones:4 --param slope=0.5 --instances 5", "L702", "[5]"),
        ("leaky.c --param x=ones:4 --param slope=steep", "L702", "steep"),
        ("leaky.c --param x=ones:4 --param slope=0.5 --param x=ones:4", "L008", "twice"),
        ("leaky.c --param x", "L008", "NAME=VALUE"),
        ("leaky.c --param x=", "L008", "NAME=VALUE"),
        ("leaky.c --param x=ones:4x0 --param slope=1", "L702", "ones:4x0"),
        ("leaky.c --param x=ones:-4 --param slope=1", "L702", "sizes"),
        ("leaky.c --param x=ones:4:1 --param slope=1", "L702", "sizes"),
        ("leaky.c --param x=ones:99999999999999 --param slope=1", "L702", "99999999999999"),
        ("leaky.c --param x=@gone.npy --param slope=1", "L702", "gone.npy"),
        ("leaky.c --param x=@leaky.c --param slope=1", "L702", "leaky.c: not an array of numbers"),
        ("leaky.c --param x=@many.npz --param slope=1", "L702", "several arrays"),
        ("leaky.c --param x=@wide.npy --param slope=1", "L702", "float64"),
        ("leaky.c --param x=ones:4 --param slop=1", "L702", "'slope'"),
        ("leaky.c --param x=ones:4 --param slope=1 --engine gpu", "L008", "gpu"),
    ],
)
def test_bad_words(verbs: Verbs, words: str, code: str, said: str) -> None:
    (verbs.folder / "noise.c").write_bytes(b"\xff\xfe\x00void")
    np.savez(verbs.folder / "many.npz", a=np.zeros(1))
    np.save(verbs.folder / "wide.npy", np.zeros(4))
    left, out, err = verbs(f"kernel run {words}")
    assert (left, out) == (2, "") and err.startswith(f"error {code}: ") and said in err and "  fix: " in err


def test_files_of_windows_are_read(verbs: Verbs) -> None:
    (verbs.folder / "crlf.c").write_bytes(b"\xef\xbb\xbf" + LEAKY.replace("\n", "\r\n").encode())
    assert verbs("kernel check crlf.c")[0] == 0


def test_a_barrier_that_not_all_reach_is_in_the_file(verbs: Verbs) -> None:
    verbs.write("wait.c", "void kernel(int i, int n, float y[n]) {\n  if (i < 3) barrier();\n  y[i] = 1;\n}")
    for verb in ("check", "graph"):
        code, _, err = verbs(f"kernel {verb} wait.c")
        assert code == 2 and err.startswith("error L701: wait.c:2:14: ")


def test_an_adjoint_by_the_files_name_is_checked(verbs: Verbs) -> None:
    """And other functions are not, whatever their names."""
    kernel = (
        "float kernel_of(float a) { return 2 * a; }\nvoid kernel(int i, int n, const float x[n], float y[n]) { y[i] = kernel_of(x[i]); }\n"
    )
    backward = "void twice_backward(int i, int n, const float grad_y[n], float grad_x[n]) { grad_x[0] = 2 * grad_y[i]; }\n"
    verbs.write("twice.c", kernel + backward)
    code, out, err = verbs("kernel check twice.c")
    assert code == 2 and "twice_backward:" in out and err.startswith("error L703: twice.c:3:")
    verbs.write("twice.c", kernel + backward.replace("grad_x[0]", "grad_x[i]"))
    assert verbs("kernel check twice.c")[0] == 0


def test_an_adjoint_that_does_not_fit_is_told_by_check(verbs: Verbs) -> None:
    verbs.write("two.c", LEAKY + "void kernel_backward(int i, int n, const double grad_y[n], float grad_x[n]) { grad_x[i] = grad_y[i]; }\n")
    code, _, err = verbs("kernel check two.c")
    line = LEAKY.count("\n") + 1
    assert code == 2 and err.startswith(f"error L701: two.c:{line}:49: `grad_y` of kernel_backward is double, and `y` is float (K20")
    assert "  fix: `const float grad_y[n]`" in err and err.splitlines()[2].endswith("^")


def test_numbers_and_kinds_of_arrays(verbs: Verbs) -> None:
    head = "void kernel(int i, int n, bool b, int k, long l, double d, const bool x[4], const int z[2][2], float y[n]) {"
    verbs.write("kinds.c", head + " y[i] = b + k + l + d + x[i] + z[i / 2][i % 2]; }")
    line = "kernel run kinds.c --param b=true --param k=0x10 --param l=-3 --param d=1e2 --param x=ones:4 --param z=random:2x2:1"
    assert verbs(f"{line} --instances 4")[0] == 0
    z = np.random.default_rng(1).integers(0, 100, (2, 2)).ravel()
    assert np.load("y.npy").tolist() == [float(1 + 16 - 3 + 100 + 1 + one) for one in z]


def test_a_circuit_is_told_and_drawn(verbs: Verbs) -> None:
    (verbs.folder / "leaky.c").write_text(LEAKY)
    code, out, _ = verbs("kernel graph leaky.c --svg circuit.svg")
    assert code == 0 and "condition" in out and "instances leave each other alone" in out
    assert (verbs.folder / "circuit.svg").read_text().startswith("<svg")
    code, out, _ = verbs("kernel graph leaky.c --coarse --json")
    assert code == 0 and len(json.loads(out)["functions"]) == 1
    code, _, err = verbs("kernel graph leaky.c --svg leaky.c/circuit.svg")
    assert code != 0 and "leaky.c" in err


def test_without_the_extra_it_says_what_to_install(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    import laminar.kernels.open_file as opened

    monkeypatch.setattr(opened, "find_spec", lambda _: None)
    for verb in ("check", "run"):
        code, _, err = verbs(f"kernel {verb} leaky.c")
        assert code == 2 and "error L011" in err and "pip install 'laminar-train[kernels]'" in err


def test_no_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "leaky.c").write_text(LEAKY)
    program = (
        "import sys\nfrom laminar.cli import main\n"
        "for words in ('check leaky.c --json', 'run leaky.c --param x=ones:4 --param slope=1'):\n"
        "    sys.argv = ['laminar', 'kernel', *words.split()]\n"
        "    try:\n        main()\n    except SystemExit as left:\n        assert not left.code\n"
        "sys.exit(f'loaded {sorted(loaded)}' if (loaded := {'torch', 'llvmlite'} & set(sys.modules)) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--param slop=0.1", "there is no parameter `slop`; did you mean 'slope'?"),
        ("--param n=5", "`n` is the number of instances"),
        ("--param slope=zeros:3", "`slope` is one float, and an ndarray is given"),
        ("--param x=0.5", "`x` is an array (float x[n]), and one number is given"),
        ("--param x=zeros:5x5", "`x` has 2 dimensions [5, 5], and the kernel takes 1"),
    ],
)
def test_bench_takes_what_the_kernel_takes(verbs: Verbs, words: str, said: str) -> None:
    verbs.write("leaky.c", LEAKY)
    code, _, err = verbs(f"kernel bench leaky.c --instances 16 {words}")
    assert code == 2 and err.startswith("error L702: leaky.c: ") and said in err and "  fix: " in err


def test_bench_takes_whole_numbers_for_whole_numbers(verbs: Verbs) -> None:
    verbs.write("rows.c", "void kernel(int i, int n, int m, const float x[n][m], float y[n]) { y[i] = x[i][m - 1]; }")
    code, _, err = verbs("kernel bench rows.c --instances 16 --param m=2.5")
    assert code == 2 and "`m` is of type int, and 2.5 is given" in err


def test_what_a_kernel_assumes_is_shown_and_checked(verbs: Verbs) -> None:
    verbs.write("row.c", "#pragma laminar assume 0 <= k && k < rows\n" + ROW)
    code, printed, _ = verbs("kernel check row.c")
    assert code == 0 and "1:1: assumes (0 <= k) && (k < rows): checked in each call" in printed
    assert "3:12: bounds of `x`: proved" in printed
    _, printed, _ = verbs("kernel check row.c --json")
    assert json.loads(printed)["kernels"][0]["assumes"] == ["(0 <= k) && (k < rows)"]
    for engine in ("emulator", "native"):
        code, _, said = verbs(f"kernel run row.c --param x=ones:3x4 --param k=3 --engine {engine}")
        assert code == 2 and "L702" in said and "and here k = 3, rows = 3" in said
        assert verbs(f"kernel run row.c --param x=ones:3x4 --param k=2 --engine {engine}")[0] == 0
    verbs.write("row.c", ROW)
    code, _, said = verbs("kernel check row.c")
    assert code == 2 and "a witness, with 2 instances and rows = 2, k = 2 it is x[2][0]" in said


ROW = """void kernel(int i, int n, int rows, int k, const float x[rows][n], float y[n]) {
    y[i] = x[k][i];
}
"""


def test_odd_arithmetic_is_found_if_it_is_asked_for(verbs: Verbs) -> None:
    verbs.write("pack.c", "void kernel(int i, int n, const float x[n], int y[n]) { y[i] = (i + 30000) * 100000 + (int)(x[i] * 1e10f); }")
    assert verbs("kernel run pack.c --param x=ones:2")[0] == 0
    code, _, said = verbs("kernel run pack.c --param x=ones:2 --arithmetic")
    assert code == 2 and "instance 0: the product is 3,000,000,000, which wraps around to -1,294,967,296 (2 times)" in said
    assert "instance 0 converts 1e+10, which no int holds: to 2,147,483,647 (2 times)" in said
    code, _, said = verbs("kernel run pack.c --param x=ones:2 --arithmetic --engine native")
    assert code == 2 and "L008" in said
