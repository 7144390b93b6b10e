"""The parts that pods of every kind have in common: who they run as, what they may use, what they see."""

from __future__ import annotations

from typing import Final

from laminar.launch.agent import TOKEN
from laminar.launch.kubernetes import quantities
from laminar.launch.kubernetes.options import Options
from laminar.launch.kubernetes.yaml_text import Object

USER: Final = 10001  # of the image that the Dockerfile makes
GRACE: Final = 60  # seconds between SIGTERM and SIGKILL: enough to write a checkpoint
GPU: Final = "nvidia.com/gpu"


def metadata(options: Options, suffix: str = "", *, name: str | None = None) -> Object:
    """Of an object that belongs to the job."""
    found: Object = {"name": name or options.name + suffix}
    if options.namespace is not None:
        found["namespace"] = options.namespace
    return found | {"labels": labels(options)}


def labels(options: Options, role: str | None = None) -> dict[str, str]:
    """By which services and policies find the pods of this job."""
    found = {"app.kubernetes.io/name": "laminar", "app.kubernetes.io/instance": options.name}
    return found | ({"app.kubernetes.io/component": role} if role else {})


def build(options: Options, on: str | None = None) -> list[str]:
    """The command of the chief; without `on`, of all, where the environment tells who is who."""
    where = ["--on", on] if on is not None else []
    return ["laminar", "-C", options.project, "build", *where, "--workers", str(options.workers), *options.build_args]


def trainer(options: Options, container: Object, *, gpu: bool, store: bool = True, token: bool = False, read_only: bool = True) -> Object:
    """A pod that takes part in the training; `container` has a name and a command.

    `store`: the chief may run in it. `token`: it must know the token before it is told; Ray and Spark pass it on themselves.
    `read_only`: it writes nothing but into volumes.
    """
    whole = {
        **container,
        "env": environment(options, store=store, token=token),
        **environment_from(options),
        "resources": resources(options, gpu=gpu),
        "securityContext": security(read_only=read_only),
        "volumeMounts": mounts(options, store=store),
    }
    return spec(options, whole, tolerations(options, gpu=gpu)) | {"volumes": volumes(options, store=store)}


def spec(options: Options, container: Object, told: list[Object]) -> Object:
    """A pod with one container, with as few rights as can be, on nodes whose taints `told` tolerates."""
    found: Object = {"restartPolicy": "Never"}
    if options.pull_secret is not None:
        found["imagePullSecrets"] = [{"name": options.pull_secret}]
    found |= {
        "#api": "Nothing in the pod talks to the Kubernetes API.",
        "automountServiceAccountToken": False,
        "#links": "Addresses of other services of the namespace are nobody's business here.",
        "enableServiceLinks": False,
        "#grace": "Time for the chief to write a checkpoint when it is told to end.",
        "terminationGracePeriodSeconds": GRACE,
    }
    if options.node_selector:
        found["nodeSelector"] = dict(options.node_selector)
    if told:
        found["tolerations"] = told
    return found | {"securityContext": pod_security(), "containers": [container]}


def pod_security() -> Object:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "#group": "Volumes can be written by this group.",
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def security(*, read_only: bool) -> Object:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": read_only}


def resources(options: Options, *, gpu: bool) -> Object:
    """As much as a pod gets is what it asked for: a worker that is throttled, or ended for want of memory, holds up the others."""
    some = {"cpu": options.cpu, "memory": options.memory}
    return {"requests": some, "limits": some | ({GPU: options.gpu} if gpu and options.gpu else {})}


def tolerations(options: Options, *, gpu: bool) -> list[Object]:
    found: list[Object] = []
    if gpu and options.gpu:
        found.append(
            {"#gpu": "Nodes with GPUs keep other pods away by this taint.", "key": GPU, "operator": "Exists", "effect": "NoSchedule"}
        )
    for given in options.tolerations:
        one: Object = {"key": given.key, "operator": "Exists" if given.value is None else "Equal"}
        if given.value is not None:
            one["value"] = given.value
        found.append(one | ({"effect": given.effect} if given.effect is not None else {}))
    return found


def environment(options: Options, *, store: bool, token: bool) -> list[Object]:
    found = [
        *([_secret("#token", "What lets a worker in. The value is in the Secret only.", TOKEN, options.token, "token")] if token else []),
        *([{"name": "LAMINAR_STORE", "value": options.store_path}] if store else []),
        {"name": "HOME", "value": "/tmp"},
        {
            "#threads": "torch sees all cores of the node, not the pod's share of them.",
            "name": "OMP_NUM_THREADS",
            "value": str(max(1, int(quantities.cores(options.cpu)))),
        },
    ]
    return found + [_secret("", "", given.variable, given.secret, given.key) for given in options.secret_env]


def _secret(mark: str, why: str, variable: str, secret: str, key: str) -> Object:
    note = {mark: why} if mark else {}
    return note | {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def environment_from(options: Options) -> Object:
    if options.remote_secret is None:
        return {}
    return {
        "#remote": "Each key of this Secret is a variable: what remotes and mirrors ask for.",
        "envFrom": [{"secretRef": {"name": options.remote_secret}}],
    }


def mounts(options: Options, *, store: bool) -> list[Object]:
    found: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "shm", "mountPath": "/dev/shm"}]
    if store:
        found.append({"name": "store", "mountPath": options.store_path})
    if options.data_claim is not None:
        found.append({"name": "data", "mountPath": options.data_claim.path, "readOnly": True})
    return found


def volumes(options: Options, *, store: bool) -> list[Object]:
    half = quantities.mebibytes(quantities.memory(options.memory) // 2)
    found: list[Object] = [
        {"name": "tmp", "emptyDir": {}},
        {
            "#shm": "Workers in one pod meet in shared memory, of which containers get 64 MB otherwise. It counts as memory of the pod.",
            "name": "shm",
            "emptyDir": {"medium": "Memory", "sizeLimit": half},
        },
    ]
    if store and options.store_claim is not None:
        found.append({"name": "store", "persistentVolumeClaim": {"claimName": options.store_claim.name}})
    elif store:
        found.append(
            {"#store": "Gone with the pod: layers and checkpoints are kept only with --store-claim.", "name": "store", "emptyDir": {}}
        )
    if options.data_claim is not None:
        found.append({"name": "data", "persistentVolumeClaim": {"claimName": options.data_claim.name, "readOnly": True}})
    return found
