"""Names that Kubernetes takes, by the rules of RFC 1123 and of its API conventions, checked before the API server would refuse them."""

from __future__ import annotations

import re
from typing import Final

from laminar.core.errors import LaminarError

LONGEST_NAME: Final = 40
"""Of a job: a pod of an Indexed Job is called NAME-INDEX (63 at most), KubeRay allows 47, Spark's executors NAME-<16 digits>-exec-N."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.A)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.A)
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.A)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)
_SECRET_KEY: Final = re.compile(r"[-._A-Za-z0-9]{1,253}", re.A)
_PART: Final = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"  # a registry
    rf"{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.A,
)
_SECRET: Final = re.compile(r"[^/@]*:[^@]*@(?!sha256:)")  # a name and a password before a host
_LABEL_RULE: Final = "lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit"


def job_name(text: str) -> None:
    # A Service takes its name from the job, and must begin with a letter (RFC 1035) until Kubernetes 1.34.
    if len(text) > LONGEST_NAME or not _LABEL.fullmatch(text) or not text[0].isalpha():
        raise LaminarError("L008", f"--name {text!r}: expected {_LABEL_RULE}, {LONGEST_NAME} at most", hint=f"--name {_nearest(text)}")


def namespace(text: str) -> None:
    if len(text) > 63 or not _LABEL.fullmatch(text):
        raise LaminarError(
            "L008",
            f"--namespace {text!r}: expected lower-case letters, digits and '-', 63 at most",
            hint="kubectl get namespaces lists them",
        )


def object_name(option: str, text: str, kind: str) -> None:
    """The name of a Secret or a claim that is there already."""
    if len(text) > 253 or not _SUBDOMAIN.fullmatch(text):
        raise LaminarError(
            "L008",
            f"{option}: {text!r} cannot be the name of a {kind}: lower-case letters, digits, '-' and '.'",
            hint=f"kubectl get {kind.lower()}s lists them",
        )


def image(text: str) -> None:
    if len(text) > 255 or not _IMAGE.fullmatch(text):
        shown = _SECRET.sub("…@", text)
        raise LaminarError(
            "L008", f"--image {shown!r}: expected [REGISTRY/]NAME[:TAG][@sha256:DIGEST]", hint="--image registry.example.org/team/laminar:1"
        )


def label(option: str, key: str, value: str) -> None:
    prefix, slash, name = key.rpartition("/")
    if (slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix))) or not _QUALIFIED.fullmatch(name):
        raise LaminarError(
            "L008", f"{option}: {key!r} cannot be the key of a label", hint=f"{option} disk=fast, or {option} example.org/pool=a"
        )
    if value and not _QUALIFIED.fullmatch(value):
        raise LaminarError("L008", f"{option}: {value!r} cannot be the value of a label", hint="kubectl get nodes --show-labels lists them")


def variable(option: str, text: str) -> None:
    if not _VARIABLE.fullmatch(text):
        raise LaminarError(
            "L008", f"{option}: {text!r} cannot be an environment variable", hint=f"{option} AWS_SECRET_ACCESS_KEY=my-secret:key"
        )


def secret_key(option: str, text: str) -> None:
    if not _SECRET_KEY.fullmatch(text) or text in {".", ".."}:
        raise LaminarError("L008", f"{option}: {text!r} cannot be a key of a Secret", hint=f"{option} NAME=SECRET:KEY")


def mount_path(option: str, text: str) -> None:
    parts = text.split("/")
    if not text.startswith("/") or text == "/" or {".", "..", ""} & set(parts[1:]) or not text.isprintable() or ":" in text:
        raise LaminarError(
            "L008", f"{option}: {text!r}: expected an absolute path such as /data, without '.', '..' or ':'", hint="PVC:/data"
        )
    if text in {"/tmp", "/dev", "/proc", "/sys", "/etc"} or parts[1] in {"dev", "proc", "sys"}:
        raise LaminarError("L008", f"{option}: a volume at {text} would hide what pods need there", hint="PVC:/data")


def _nearest(text: str) -> str:
    fitting = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST_NAME].strip("-")
    return fitting if fitting and fitting[0].isalpha() else f"job-{fitting}"[:LONGEST_NAME].strip("-")
