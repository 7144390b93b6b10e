"""Spark: a SparkApplication of the Spark operator (Kubeflow's), whose driver runs `laminar build --on spark`.

The operator is used rather than a Job with spark-submit: it is what Spark's users have, and it retries. Pods are described by templates
(Spark 3 and newer), so the operator's webhook, which many leave out, is not needed. The driver has the chief and the store; MAIN, which
spark-submit runs in it, opens the session that is described here, and `--on spark` finds it. Java takes a part of the memory, and the
rest is for Python. Fields are those of sparkoperator.k8s.io/v1beta2.
"""

from __future__ import annotations

from typing import Final

from laminar.launch.kubernetes import quantities
from laminar.launch.kubernetes.network import policy
from laminar.launch.kubernetes.options import SPARK_VERSION, Options
from laminar.launch.kubernetes.pod import GPU, build, labels, metadata, trainer
from laminar.launch.kubernetes.yaml_text import Object

MAIN: Final = "local:///opt/laminar/main.py"  # in the image that the Dockerfile makes
BETWEEN: Final = 10  # seconds between two attempts
KEPT: Final = 86_400
AS_THE_LAUNCHER: Final = {  # as a session that Laminar opens has them (launch/spark_session.py)
    "spark.task.cpus": "1",
    "spark.task.maxFailures": "1000",
    "spark.stage.maxConsecutiveAttempts": "1000",
    "spark.locality.wait": "0",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.python.worker.reuse": "true",
}
_BY_SPARK: Final = frozenset({"restartPolicy", "imagePullSecrets", "#api", "automountServiceAccountToken"})


def objects(options: Options) -> list[Object]:
    return [*_rights(options), policy(options), _application(options)]


def _rights(options: Options) -> list[Object]:
    """The driver starts executors, so it may make and remove pods, and what belongs to them, in this namespace."""
    account = options.name
    role: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(options),
        "rules": [
            {
                "#driver": "Spark's driver starts and ends executors. No right to read Secrets.",
                "apiGroups": [""],
                "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
            }
        ],
    }
    subject: Object = {"kind": "ServiceAccount", "name": account, "namespace": options.namespace}
    binding: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(options),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [subject],
    }
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(options)}, role, binding]


def _application(options: Options) -> Object:
    spec: Object = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": options.engine_version or SPARK_VERSION,
        "image": options.image,
        "mainApplicationFile": MAIN,
        "arguments": build(options, "spark")[1:],
        "sparkConf": {
            "#launcher": "One worker an executor; who has failed too often is decided by the chief.",
            **AS_THE_LAUNCHER,
            "#authenticate": "Executors show a secret that Spark makes for each run.",
            "spark.authenticate": "true",
            "spark.ui.enabled": "false",
        },
        "restartPolicy": {
            "#retry": "Each attempt goes on from the checkpoint in the store.",
            "type": "OnFailure" if options.backoff else "Never",
            **(
                {
                    "onFailureRetries": options.backoff,
                    "onFailureRetryInterval": BETWEEN,
                    "onSubmissionFailureRetries": options.backoff,
                    "onSubmissionFailureRetryInterval": BETWEEN,
                }
                if options.backoff
                else {}
            ),
        },
        "timeToLiveSeconds": KEPT,
    }
    if options.pull_secret is not None:
        spec["imagePullSecrets"] = [options.pull_secret]
    driver = _pod(options, "driver", gpu=False) | {"serviceAccount": options.name}
    executor = {"instances": options.pods} | _pod(options, "executor", gpu=True)
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": metadata(options),
        "spec": spec | {"driver": driver, "executor": executor},
    }


def _pod(options: Options, role: str, *, gpu: bool) -> Object:
    whole = quantities.memory(options.memory) // quantities.MIB
    java = max(512, min(1024, whole // 4))
    container: Object = {"name": f"spark-kubernetes-{role}", "image": options.image}
    # Spark writes beside its own files, which a read-only root does not allow.
    pod = trainer(options, container, gpu=gpu, store=role == "driver", read_only=False)
    # Spark adds cpu and memory from the fields below, and leaves GPUs to the template.
    limits = {"resources": {"limits": {GPU: options.gpu}}} if gpu and options.gpu else {}
    pod["containers"] = [{key: value for key, value in pod["containers"][0].items() if key != "resources"} | limits]
    pod = {key: value for key, value in pod.items() if key not in _BY_SPARK}
    if role == "executor":
        pod = {"#api": "Only the driver talks to the Kubernetes API.", "automountServiceAccountToken": False} | pod
    return {
        "#cores": "A slot for one worker, whatever the pod's share of the processor.",
        "cores": 1,
        "coreRequest": options.cpu,
        "coreLimit": options.cpu,
        "#memory": "Java's part, then Python's; together what was asked for.",
        "memory": f"{java}m",
        "memoryOverhead": f"{whole - java}m",
        "template": {"metadata": {"labels": labels(options, role)}, "spec": pod},
    }
