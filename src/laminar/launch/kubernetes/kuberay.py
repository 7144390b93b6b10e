"""KubeRay: a RayJob, which starts a Ray cluster, runs `laminar build --on ray:auto` on its head, and takes the cluster down again.

The head takes no worker (num-cpus 0): it has the chief and the store. Fields are those of the API reference of ray.io/v1. The operator
watches the job through the dashboard of the head, which is why it may reach that port.
"""

from __future__ import annotations

import shlex
from typing import Final

from laminar.launch.kubernetes.network import policy
from laminar.launch.kubernetes.options import Options
from laminar.launch.kubernetes.pod import build, labels, metadata, security, spec, tolerations, trainer
from laminar.launch.kubernetes.yaml_text import Object

DASHBOARD: Final = 8265
UP: Final = 60  # seconds that the cluster stays up when the job is over
OPERATOR: Final = "kuberay-operator"  # as its chart labels it


def objects(options: Options) -> list[Object]:
    watches = {
        "#operator": "KubeRay's operator asks the head how the job does.",
        "from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/component": OPERATOR}}}],
        "ports": [{"port": DASHBOARD}],
    }
    return [policy(options, [watches]), _job(options)]


def _job(options: Options) -> Object:
    told: Object = {"entrypoint": shlex.join(build(options, "ray:auto")), "submissionMode": "K8sJobMode"}
    told |= {"#backoff": "Each retry is a new cluster, which goes on from the checkpoint in the store.", "backoffLimit": options.backoff}
    if options.deadline is not None:
        told["activeDeadlineSeconds"] = options.deadline
    told |= {
        "#after": "Machines are given back; the log stays with the pod that submitted the job.",
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": UP,
        "submitterPodTemplate": _submitter(options),
        "rayClusterSpec": _cluster(options),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata(options), "spec": told}


def _cluster(options: Options) -> Object:
    found: Object = {"rayVersion": options.engine_version} if options.engine_version is not None else {}
    head: Object = {
        "name": "ray-head",
        "image": options.image,
        "ports": [
            {"name": "gcs", "containerPort": 6379},
            {"name": "dashboard", "containerPort": DASHBOARD},
            {"name": "client", "containerPort": 10001},
        ],
    }
    worker: Object = {"name": "ray-worker", "image": options.image}
    return found | {
        "headGroupSpec": {
            "rayStartParams": {
                "#listens": "In the pod's own network, where the NetworkPolicy lets in pods of this job and the operator.",
                "dashboard-host": "0.0.0.0",
                "#chief": "The head has the chief, and no worker.",
                "num-cpus": "0",
            },
            "template": {
                "metadata": {"labels": labels(options, "head")},
                "spec": _without_restart_policy(trainer(options, head, gpu=False)),
            },
        },
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                "replicas": options.pods,
                "minReplicas": options.pods,
                "maxReplicas": options.pods,
                "rayStartParams": {"#one": "One worker a pod, whatever its cores.", "num-cpus": "1"},
                "template": {
                    "metadata": {"labels": labels(options, "worker")},
                    "spec": _without_restart_policy(trainer(options, worker, gpu=True, store=False)),
                },
            }
        ],
    }


def _without_restart_policy(pod: Object) -> Object:
    """Ray's pods are the operator's to restart; only the submitter must say how."""
    return {key: value for key, value in pod.items() if key != "restartPolicy"}


def _submitter(options: Options) -> Object:
    """The pod that hands the job in and prints its log. It gets no secret and no volume but /tmp."""
    some = {"cpu": "500m", "memory": "512Mi"}
    container: Object = {
        "name": "submitter",
        "image": options.image,
        "env": [{"name": "HOME", "value": "/tmp"}],
        "resources": {"requests": some, "limits": some},
        "securityContext": security(read_only=True),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = spec(options, container, tolerations(options, gpu=False)) | {"volumes": [{"name": "tmp", "emptyDir": {}}]}
    return {"metadata": {"labels": labels(options, "submitter")}, "spec": pod}
