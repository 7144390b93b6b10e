"""torchrun in an Indexed Job: plain Kubernetes, no operator.

Each pod has an index, and with a headless Service a name that lasts: pod 0, the chief, is NAME-0.NAME for the others, also after it was
replaced. Which failures count:

* A pod that fails is replaced by one of the same index (restartPolicy Never: pods that restart in place cannot be judged by a policy).
  Limits are per index: pods of one training fail together, and would use up a common limit at once.
* A pod that is evicted or preempted did nothing wrong, and does not count.
* Index 0 decides. It has the store; when it is done the Job is, whatever became of workers that it went on without. When it is lost, its
  successor goes on from the checkpoint, and agents that cannot reach it for long end and are replaced.
* torchrun leaves with 1 whatever its process left with, so no rule can tell a mistake of the user's, which no retry mends, from a
  crash. Such a build fails `backoff` times more, quickly, before the Job does.
"""

from __future__ import annotations

from typing import Final

from laminar.launch.kubernetes.network import policy
from laminar.launch.kubernetes.options import Options
from laminar.launch.kubernetes.pod import build, labels, metadata, trainer
from laminar.launch.kubernetes.yaml_text import Object

PORT: Final = 29500
KEPT: Final = 86_400  # seconds that a Job stays when it is over, with the logs of its pods
CONTAINER: Final = "laminar"


def objects(options: Options) -> list[Object]:
    return [_service(options), policy(options), _job(options)]


def _service(options: Options) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(options),
        "spec": {
            "#headless": "Headless: gives each pod a name of its own, and no address from outside.",
            "clusterIP": "None",
            "#early": "Workers look for the chief before it is ready.",
            "publishNotReadyAddresses": True,
            "selector": labels(options),
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    }


def _job(options: Options) -> Object:
    spec: Object = {
        "completionMode": "Indexed",
        "completions": options.pods,
        "parallelism": options.pods,
        "#backoff": "Pods of one training fail together, so the limit is per pod.",
        "backoffLimitPerIndex": options.backoff,
        "podFailurePolicy": {
            "rules": [
                {
                    "#evicted": "A pod that had to make room is replaced, and does not count.",
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }
            ]
        },
        "#success": "Pod 0 is the chief: when it has its layers, the training is over.",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
    }
    if options.deadline is not None:
        spec["activeDeadlineSeconds"] = options.deadline
    spec |= {"ttlSecondsAfterFinished": KEPT, "template": _template(options)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(options), "spec": spec}


def _template(options: Options) -> Object:
    container: Object = {
        "name": CONTAINER,
        "image": options.image,
        "command": [
            *("torchrun", "--nnodes", str(options.pods), "--nproc-per-node", "1", "--node-rank", "$(JOB_COMPLETION_INDEX)"),
            *("--master-addr", f"{options.name}-0.{options.name}", "--master-port", str(PORT)),
            *("-m", *build(options)),
        ],
        "ports": [{"name": "rendezvous", "containerPort": PORT}],
    }
    spec = {"#name": "With the Service of this name, pod 0 can be found by the others.", "subdomain": options.name}
    return {"metadata": {"labels": labels(options)}, "spec": spec | trainer(options, container, gpu=True, token=True)}
