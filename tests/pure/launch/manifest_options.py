"""Options of manifests for tests: one full example of each kind, and any that are valid."""

from __future__ import annotations

import string
from pathlib import Path

import msgspec
from hypothesis import strategies as st

from laminar.launch.kubernetes.options import KINDS, OWN, Claim, Options, SecretEnv, Toleration, checked

FULL = checked(
    Options(
        workers=4,
        image="registry.example.org/team/laminar:0.1.0",
        name="flowers",
        namespace="lab",
        cpu="2",
        memory="8Gi",
        gpu=1,
        node_selector=(("example.org/pool", "training"),),
        tolerations=(Toleration("spot", None, "NoSchedule"), Toleration("team", "vision", None)),
        remote_secret="bucket",
        secret_env=(SecretEnv("HUB_LOGIN", "hub", "login"),),
        pull_secret="registry",
        data_claim=Claim("flowers-data", "/data"),
        store_claim=Claim("flowers-store", "/store"),
        backoff=2,
        deadline=7200,
        build_args=("head", "--strategy", "averaging:every=8"),
    )
)


def golden(kind: str) -> Path:
    return Path(__file__).parent / "manifests" / f"{kind}.yaml"


def full(kind: str) -> Options:
    return checked(msgspec.structs.replace(FULL, kind=kind))


_word = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)
_name = st.builds(lambda first, rest: "-".join(["n" + first, *rest]), _word, st.lists(_word, max_size=2))
_label = st.text(string.ascii_letters + string.digits, min_size=1, max_size=63)
_path = st.lists(_word, min_size=1, max_size=3).map(lambda parts: "/mnt/" + "/".join(parts))
_image = st.builds(
    lambda registry, name, tag: f"{registry}{name}{tag}",
    st.sampled_from(["", "r.example.org:5000/"]),
    _name,
    st.sampled_from(["", ":V1_x.2", "@sha256:" + "0f" * 32]),
)
_variable = st.text(string.ascii_uppercase + "_", min_size=1, max_size=12).filter(lambda word: word not in OWN)
_arg = st.text(string.ascii_letters + string.digits + "-_=:,.'\"# {}[]&*!|>%@`äß", min_size=1, max_size=20).filter(
    lambda word: word.split("=", 1)[0] not in ("--on", "--workers") and "://" not in word
)

valid = st.builds(
    Options,
    workers=st.integers(1, 10_000),
    image=_image,
    kind=st.sampled_from(KINDS),
    name=_name,
    namespace=_name,
    project=_path.map(lambda path: "/home" + path),
    cpu=st.sampled_from(["1", "2", "0.5", "500m", "1500m", "64", "1e1"]),
    memory=st.sampled_from(["1Gi", "4Gi", "1.5Gi", "2000M", "4e9", "3000000000"]),
    gpu=st.integers(0, 8),
    node_selector=st.dictionaries(
        st.builds("{}{}".format, st.sampled_from(["", "example.org/"]), _label), _label | st.just(""), max_size=3
    ).map(lambda pairs: tuple(pairs.items())),
    tolerations=st.lists(st.builds(Toleration, _label, st.none() | _label, st.none() | st.just("NoExecute")), max_size=2).map(tuple),
    remote_secret=st.none() | _name,
    secret_env=st.lists(st.builds(SecretEnv, _variable, _name, _label), max_size=3, unique_by=lambda one: one.variable).map(tuple),
    pull_secret=st.none() | _name,
    data_claim=st.none() | st.builds(Claim, _name, _path.map(lambda path: path + "/data")),
    store_claim=st.none() | st.builds(Claim, _name, _path.map(lambda path: path + "/store")),
    backoff=st.integers(0, 10),
    deadline=st.none() | st.integers(1, 10**6),
    engine_version=st.none() | st.just("4.1.0"),
    build_args=st.lists(_arg, max_size=4).map(tuple),
).map(checked)


if __name__ == "__main__":
    from laminar.launch.kubernetes import manifests

    for kind in KINDS:
        golden(kind).write_text(manifests.text(full(kind)), encoding="utf-8")
