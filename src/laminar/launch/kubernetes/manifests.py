"""The manifests as text, checked once more as a whole before anybody sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from laminar.core.errors import LaminarError
from laminar.launch.kubernetes import kuberay, spark_on_kubernetes, torchrun_job
from laminar.launch.kubernetes.options import Options
from laminar.launch.kubernetes.yaml_text import Object, documents, without_comments

MAKERS: Final = {"torchrun": torchrun_job.objects, "kuberay": kuberay.objects, "spark": spark_on_kubernetes.objects}
WHAT: Final = {
    "torchrun": "by torchrun in an Indexed Job; needs Kubernetes 1.31 or newer, and no operator",
    "kuberay": "on Ray, in a RayJob; needs KubeRay's operator, 1.2 or newer",
    "spark": "on Spark, in a SparkApplication; needs Kubeflow's Spark operator, 2.1 or newer",
}
_SOUNDS_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|ACCESS_KEY|API_KEY|PRIVATE", re.I)
_SHORT: Final = 8  # characters; a shorter value stands in any text by chance


def objects(options: Options) -> list[Object]:
    """The objects, without comments."""
    found: list[Object] = without_comments(MAKERS[options.kind](options))
    return found


def text(options: Options) -> str:
    """One YAML file."""
    return documents(_header(options), MAKERS[options.kind](options))


def refuse_secrets(written: str, environment: Mapping[str, str]) -> None:
    """The last look: no value of a variable that sounds like a secret stands in the text. Names the variable, never the value."""
    for name, value in environment.items():
        if _SOUNDS_SECRET.search(name) and len(value) >= _SHORT and value in written:
            raise LaminarError(
                "L008",
                f"the value of the environment variable {name} would stand in the manifest",
                hint=f"put it into a Secret and give --secret-env {name}=SECRET:KEY",
            )


def _header(options: Options) -> list[str]:
    here = f" --namespace {options.namespace}" if options.namespace else ""
    lines = [f"Laminar: {options.workers} worker{'s' if options.workers != 1 else ''} {WHAT[options.kind]}."]
    if options.kind == "torchrun":
        make = f"kubectl create secret generic {options.token}{here} --from-file=token=/dev/stdin"
        lines += [
            "Before the first use, make the token that lets workers in; it is in no file:",
            f"""  printf %s "$(openssl rand -hex 32)" | {make}""",
        ]
    needed = [f"Secret {secret}" for secret in dict.fromkeys(_secrets(options))]
    needed += [f"PersistentVolumeClaim {claim.name}" for claim in (options.data_claim, options.store_claim) if claim]
    if needed:
        lines.append(f"It uses what must be there already: {', '.join(needed)}.")
    return lines


def _secrets(options: Options) -> list[str]:
    given: list[Any] = [options.remote_secret, *(one.secret for one in options.secret_env), options.pull_secret]
    return [secret for secret in given if secret is not None]
