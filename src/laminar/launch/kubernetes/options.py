"""Options of the manifests, as values: read from the words of the command line, and checked as a whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.launch.agent import TOKEN
from laminar.launch.kubernetes import names, quantities

Kind = Literal["torchrun", "kuberay", "spark"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
SPARK_VERSION: Final = "4.0.1"  # as in the Dockerfile
STORE: Final = "/store"  # where there is no claim for it
OWN: Final = frozenset({TOKEN, "LAMINAR_STORE", "HOME", "OMP_NUM_THREADS"})  # variables that the manifests set
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SET_BY_KIND: Final = ("--on", "--workers")
_PASSWORD_IN_URL: Final = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


class Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim that is there already, and where pods see it."""

    name: str
    path: str


class SecretEnv(msgspec.Struct, frozen=True):
    """An environment variable whose value is in a Secret."""

    variable: str
    secret: str
    key: str


class Toleration(msgspec.Struct, frozen=True):
    key: str
    value: str | None
    effect: str | None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the manifests are made of. Made by `checked`, so that an Options is a valid one."""

    workers: int
    image: str
    kind: Kind = "torchrun"
    name: str = "laminar"
    namespace: str | None = None
    project: str = "/project"
    cpu: str = "2"
    memory: str = "4Gi"
    gpu: int = 0
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    token_secret: str | None = None
    remote_secret: str | None = None
    secret_env: tuple[SecretEnv, ...] = ()
    pull_secret: str | None = None
    data_claim: Claim | None = None
    store_claim: Claim | None = None
    backoff: int = 3
    deadline: int | None = None
    engine_version: str | None = None
    build_args: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """The Secret with the token."""
        return self.token_secret or f"{self.name}-token"

    @property
    def pods(self) -> int:
        """Of workers, and one more for an evaluator where the build is to have one."""
        return self.workers + ("--evaluator" in self.build_args)

    @property
    def store_path(self) -> str:
        return self.store_claim.path if self.store_claim else STORE


def checked(options: Options) -> Options:
    """The same options, or an error that names the first one that cannot be."""
    if options.kind not in KINDS:
        raise LaminarError("L008", f"--kind {options.kind}: {did_you_mean(options.kind, KINDS)}", hint="--kind torchrun needs no operator")
    names.image(options.image)
    names.job_name(options.name)
    if options.namespace is not None:
        names.namespace(options.namespace)
    elif options.kind == "spark":
        raise LaminarError(
            "L008", "--kind spark needs --namespace: rights are given to an account in a namespace", hint="--namespace default"
        )
    names.mount_path("--project", options.project)
    _whole("--workers", options.workers, 1, 10_000)
    _whole("--gpu", options.gpu, 0, 64)
    _whole("--backoff", options.backoff, 0, 1000)
    if options.deadline is not None:
        _whole("--deadline", options.deadline, 1, 2**31 - 1)
    quantities.cores(options.cpu)
    quantities.memory(options.memory)
    if options.kind == "spark" and quantities.memory(options.memory) < 1024 * quantities.MIB:
        raise LaminarError("L008", f"--memory {options.memory}: Spark needs 1Gi, of which Java takes half", hint="--memory 4Gi")
    if options.engine_version is not None and not re.fullmatch(r"\d+\.\d+(\.\d+)?", options.engine_version, re.A):
        raise LaminarError("L008", f"--engine-version {options.engine_version}: expected digits", hint=f"--engine-version {SPARK_VERSION}")
    for option, secret in (
        ("--token-secret", options.token),
        ("--remote-secret", options.remote_secret),
        ("--pull-secret", options.pull_secret),
    ):
        if secret is not None:
            names.object_name(option, secret, "Secret")
    if options.token_secret is not None and options.kind != "torchrun":
        raise LaminarError("L008", f"--token-secret: with --kind {options.kind} the chief makes a token for each run", hint="leave it out")
    _nodes(options)
    _secrets(options)
    _claims(options)
    _build_args(options.build_args)
    return options


def _whole(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise LaminarError("L008", f"{option} {value}: expected {least} to {most}", hint=f"{option} {max(least, 1)}")


def _nodes(options: Options) -> None:
    _once("--node-selector", [key for key, _ in options.node_selector])
    for key, value in options.node_selector:
        names.label("--node-selector", key, value)
    for toleration in options.tolerations:
        names.label("--toleration", toleration.key, toleration.value or "")
        if toleration.effect is not None and toleration.effect not in _EFFECTS:
            raise LaminarError(
                "L008",
                f"--toleration {toleration.key}: effect {toleration.effect!r}; {did_you_mean(toleration.effect, _EFFECTS)}",
                hint=f"--toleration {toleration.key}:NoSchedule",
            )


def _secrets(options: Options) -> None:
    _once("--secret-env", [given.variable for given in options.secret_env])
    for given in options.secret_env:
        names.variable("--secret-env", given.variable)
        names.object_name("--secret-env", given.secret, "Secret")
        names.secret_key("--secret-env", given.key)
        if given.variable in OWN:
            hint = "--token-secret SECRET names the Secret whose key `token` holds it" if given.variable == TOKEN else "leave it out"
            raise LaminarError("L008", f"--secret-env {given.variable}: the manifests set it themselves", hint=hint)


def _claims(options: Options) -> None:
    for option, claim in (("--data-claim", options.data_claim), ("--store-claim", options.store_claim)):
        if claim is not None:
            names.object_name(option, claim.name, "PersistentVolumeClaim")
            names.mount_path(option, claim.path)
            if claim.path == options.project:
                raise LaminarError(
                    "L008", f"{option}: a volume at {claim.path} would hide the project there", hint=f"{option} {claim.name}:/data"
                )
    if options.data_claim is not None and options.data_claim.path == options.store_path:
        raise LaminarError(
            "L008", f"--data-claim: the store is at {options.store_path}", hint=f"--data-claim {options.data_claim.name}:/data"
        )


def _build_args(words: tuple[str, ...]) -> None:
    for word in words:
        if word.split("=", 1)[0] in _SET_BY_KIND:
            raise LaminarError("L008", f"--build-args: {word.split('=', 1)[0]} is set by --kind and --workers", hint="leave it out")
        if any(not letter.isprintable() for letter in word):
            raise LaminarError("L008", "--build-args: a line break or another control character", hint="words on one line")
        if "$" in word:
            raise LaminarError("L008", f"--build-args: {word}: Kubernetes would take a $ for a variable", hint="write the value itself")
        if _PASSWORD_IN_URL.search(word):
            raise LaminarError(
                "L008",
                "--build-args: a URL with a password in it would stand in the manifest for all to read",
                hint="put the password into a Secret and give it as --secret-env NAME=SECRET:KEY",
            )


def _once(option: str, keys: list[str]) -> None:
    for key in keys:
        if keys.count(key) > 1:
            raise LaminarError("L008", f"{option} {key} is given more than once", hint="give it once")


def read_pairs(option: str, given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """KEY=VALUE words."""
    found = []
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise LaminarError("L008", f"{option} {text}: expected KEY=VALUE", hint=f"{option} disk=fast")
        found.append((key, value))
    return tuple(found)


def read_tolerations(given: Iterable[str]) -> tuple[Toleration, ...]:
    """KEY[=VALUE][:EFFECT] words."""
    found = []
    for text in given:
        rest, colon, effect = text.partition(":")
        key, equals, value = rest.partition("=")
        found.append(Toleration(key, value if equals else None, effect if colon else None))
    return tuple(found)


def read_secret_env(given: Iterable[str]) -> tuple[SecretEnv, ...]:
    """NAME=SECRET:KEY words. The error never repeats what follows NAME: someone may have given the secret itself."""
    found = []
    for text in given:
        variable, equals, rest = text.partition("=")
        secret, colon, key = rest.partition(":")
        if not equals or not colon:
            raise LaminarError(
                "L008",
                f"--secret-env {variable}: expected NAME=SECRET:KEY, the name of a Secret and a key in it, never a value",
                hint="kubectl create secret generic SECRET --from-file=KEY=FILE makes one",
            )
        found.append(SecretEnv(variable, secret, key))
    return tuple(found)


def read_claim(option: str, given: str | None) -> Claim | None:
    """PVC:/path."""
    if given is None:
        return None
    name, colon, path = given.partition(":")
    if not colon:
        raise LaminarError("L008", f"{option} {given}: expected PVC:/path", hint=f"{option} {given}:/{option.split('-')[2]}")
    return Claim(name, path)


def read_words(given: str | None) -> tuple[str, ...]:
    """The words of --build-args, as a shell would split them."""
    try:
        return tuple(shlex.split(given or ""))
    except ValueError as error:
        raise LaminarError("L008", f"--build-args: {str(error).lower()}", hint="close the quotes") from None
