"""Options of the manifests: what cannot be is refused before a cluster would, with the way out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from laminar.core.errors import LaminarError
from laminar.launch.kubernetes import options as read
from laminar.launch.kubernetes.options import Claim, Options, SecretEnv, Toleration, checked
from laminar.launch.kubernetes.quantities import quantity

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no workers": ({"workers": 0}, "--workers 0: expected 1"),
    "no image": ({"image": ""}, "--image ''"),
    "an image in capitals": ({"image": "Laminar:1"}, "--image 'Laminar:1'"),
    "an image with a space": ({"image": "laminar :1"}, "--image"),
    "an image with a password": ({"image": "https://me:hidden@registry.example.org/x"}, "--image '…@registry.example.org/x'"),
    "a kind": ({"kind": "torchrum"}, "did you mean 'torchrun'?"),
    "capitals in a name": ({"name": "My_Job"}, "--name 'My_Job'"),
    "a name that begins with a digit": ({"name": "4-workers"}, "beginning with a letter"),
    "a long name": ({"name": "n" * 41}, "40 at most"),
    "a name with a line break": ({"name": "job\n"}, "--name"),
    "a namespace": ({"namespace": "my.lab"}, "--namespace 'my.lab'"),
    "no namespace for spark": ({"kind": "spark", "namespace": None}, "--kind spark needs --namespace"),
    "cpu": ({"cpu": "two"}, "--cpu two"),
    "no cpu": ({"cpu": "0"}, "--cpu 0"),
    "cpu in parts of thousandths": ({"cpu": "0.0001"}, "--cpu 0.0001"),
    "memory": ({"memory": "4GB"}, "--memory 4GB"),
    "negative memory": ({"memory": "-4Gi"}, "--memory -4Gi"),
    "memory without a unit": ({"memory": "4"}, "did you mean 4Gi?"),
    "too little for Java": ({"kind": "spark", "memory": "600Mi"}, "Spark needs 1Gi"),
    "gpu": ({"gpu": -1}, "--gpu -1"),
    "backoff": ({"backoff": -1}, "--backoff -1"),
    "deadline": ({"deadline": 0}, "--deadline 0"),
    "a label's key": ({"node_selector": (("disk type", "ssd"),)}, "'disk type' cannot be the key"),
    "a label's value": ({"node_selector": (("disk", "a b"),)}, "'a b' cannot be the value"),
    "a label twice": ({"node_selector": (("disk", "a"), ("disk", "b"))}, "more than once"),
    "an effect": ({"tolerations": (Toleration("spot", None, "NoSchedul"),)}, "did you mean 'NoSchedule'?"),
    "a secret's name": ({"remote_secret": "My Secret"}, "--remote-secret"),
    "a secret's key": ({"secret_env": (SecretEnv("A", "b", "c d"),)}, "--secret-env"),
    "a variable": ({"secret_env": (SecretEnv("A-B", "b", "c"),)}, "'A-B' cannot be an environment variable"),
    "a variable twice": ({"secret_env": (SecretEnv("A", "b", "c"), SecretEnv("A", "b", "d"))}, "more than once"),
    "the token's variable": ({"secret_env": (SecretEnv("LAMINAR_TOKEN", "b", "c"),)}, "set it themselves"),
    "a relative path": ({"data_claim": Claim("data", "data")}, "absolute path"),
    "a path above": ({"data_claim": Claim("data", "/data/../etc")}, "absolute path"),
    "the root": ({"store_claim": Claim("s", "/")}, "absolute path"),
    "a path that pods need": ({"store_claim": Claim("s", "/dev/shm")}, "would hide"),
    "both claims at one path": ({"data_claim": Claim("d", "/x"), "store_claim": Claim("s", "/x")}, "the store is at /x"),
    "data at the store's place": ({"data_claim": Claim("d", "/store")}, "the store is at /store"),
    "a claim over the project": ({"store_claim": Claim("s", "/project")}, "would hide the project"),
    "workers twice": ({"build_args": ("--workers=3",)}, "--workers is set"),
    "a password in a URL": ({"build_args": ("--remote", "https://me:secret@host/x")}, "a URL with a password"),
    "a variable in a word": ({"build_args": ("$(HOME)",)}, "a $ for a variable"),
    "a line break": ({"build_args": ("a\nb",)}, "control character"),
    "a token where the chief makes one": ({"kind": "kuberay", "token_secret": "mine"}, "makes a token for each run"),
    "a version": ({"engine_version": "latest"}, "--engine-version latest"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused(case: str) -> None:
    given, said = BAD[case]
    with pytest.raises(LaminarError) as caught:
        checked(Options(**({"workers": 2, "image": "laminar:1", "namespace": "lab"} | given)))
    assert said in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2
    assert "secret@" not in str(caught.value)


def test_the_hint_for_a_name_is_a_name() -> None:
    for bad in ("My_Job", "4-workers", "n" * 50, "-", "Ä"):
        with pytest.raises(LaminarError) as caught:
            checked(Options(workers=1, image="laminar:1", name=bad))
        checked(Options(workers=1, image="laminar:1", name=caught.value.hint.removeprefix("--name ")))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", "1"),
        ("500m", "0.5"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("2Gi", str(2 << 30)),
        ("1e3", "1000"),
        ("1E", str(10**18)),
    ],
)
def test_quantities(text: str, number: str) -> None:
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "Gi", "1GB", "1 Gi", "1gi", "+", "one", "1Gi\n", "١"])
def test_what_is_no_quantity(text: str) -> None:
    assert quantity(text) is None


def test_words_of_the_command_line() -> None:
    assert read.read_pairs("--node-selector", ["a=b", "c="]) == (("a", "b"), ("c", ""))
    assert read.read_tolerations(["spot", "team=vision", "gpu:NoSchedule", "a=b:NoExecute"]) == (
        Toleration("spot", None, None),
        Toleration("team", "vision", None),
        Toleration("gpu", None, "NoSchedule"),
        Toleration("a", "b", "NoExecute"),
    )
    assert read.read_secret_env(["A=b:c"]) == (SecretEnv("A", "b", "c"),)
    assert read.read_claim("--data-claim", "flowers:/data") == Claim("flowers", "/data")
    assert read.read_words("head --compress 'topk:ratio=0.1'") == ("head", "--compress", "topk:ratio=0.1")


def test_a_value_in_place_of_a_secrets_name_is_not_repeated() -> None:
    with pytest.raises(LaminarError) as caught:
        read.read_secret_env(["AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI"])
    assert "wJalrXUtnFEMI" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: read.read_pairs("--node-selector", ["disk"]),
        lambda: read.read_claim("--store-claim", "store"),
        lambda: read.read_words("'open"),
    ],
)
def test_words_that_cannot_be_read(wrong: Any) -> None:
    with pytest.raises(LaminarError) as caught:
        wrong()
    assert caught.value.code == "L008" and caught.value.hint
