"""Manifests: what Kubernetes' own schemas say of them, and what no schema can say."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubeflow_spark_api.models import SparkV1beta2SparkApplication
from manifest_options import FULL, full, golden, valid

from laminar.core.errors import LaminarError
from laminar.launch.kubernetes import manifests
from laminar.launch.kubernetes.options import KINDS, SPARK_VERSION, Options, checked
from laminar.launch.kubernetes.pod import USER
from laminar.launch.kubernetes.spark_on_kubernetes import AS_THE_LAUNCHER, MAIN
from laminar.launch.spark_session import settings as spark_settings

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
VERSIONS = sorted({version for version in kubernetes_validate.utils.all_versions() if int(version.split(".")[1]) >= 31})
CORE = {"Service", "NetworkPolicy", "Job", "ServiceAccount", "Role", "RoleBinding"}

# Of the API reference of ray.io/v1: the fields that are used here, and of what kind they are. No schema of it can be installed.
RAY_JOB: dict[str, type] = {
    "entrypoint": str,
    "submissionMode": str,
    "backoffLimit": int,
    "activeDeadlineSeconds": int,
    "shutdownAfterJobFinishes": bool,
    "ttlSecondsAfterFinished": int,
    "submitterPodTemplate": dict,
    "rayClusterSpec": dict,
}
RAY_CLUSTER = {"rayVersion": str, "headGroupSpec": dict, "workerGroupSpecs": list}
RAY_HEAD = {"rayStartParams": dict, "template": dict}
RAY_WORKERS = RAY_HEAD | {"groupName": str, "replicas": int, "minReplicas": int, "maxReplicas": int}


# Or each of many validations would read megabytes of schemas anew.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


def templates(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every pod template inside the objects."""
    for one in objects:
        spec = one.get("spec", {})
        if one["kind"] == "Job":
            yield spec["template"]
        elif one["kind"] == "RayJob":
            cluster = spec["rayClusterSpec"]
            yield from (spec["submitterPodTemplate"], cluster["headGroupSpec"]["template"])
            yield from (group["template"] for group in cluster["workerGroupSpecs"])
        elif one["kind"] == "SparkApplication":
            yield from (spec["driver"]["template"], spec["executor"]["template"])


def validate(objects: list[dict[str, Any]], version: str) -> None:
    for one in objects:
        if one["kind"] in CORE:
            kubernetes_validate.validate(one, version, strict=True)
    for template in templates(objects):
        wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "wrapped"}, "template": template}
        kubernetes_validate.validate(wrapped, version, strict=True)


def fits(table: dict[str, Any], fields: dict[str, type], *, all_but: set[str]) -> None:
    assert set(table) <= set(fields)
    assert set(fields) - set(table) <= all_but
    for key, value in table.items():
        assert type(value) is fields[key], key


@pytest.mark.parametrize("kind", KINDS)
def test_manifests_are_as_they_were(kind: str) -> None:
    """A change of the manifests is a change that a reviewer sees. `python tests/pure/launch/manifest_options.py` writes them anew."""
    assert manifests.text(full(kind)) == golden(kind).read_text(encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_schemas_of_kubernetes_hold(kind: str, version: str) -> None:
    validate(manifests.objects(full(kind)), version)


def test_a_wrong_manifest_would_be_found() -> None:
    """The validation above can fail: in an object, and in a template inside a custom one."""
    job = manifests.objects(full("torchrun"))
    named(job, "Job")["spec"]["completionMod"] = "Indexed"
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(job, VERSIONS[-1])
    ray = manifests.objects(full("kuberay"))
    list(templates(ray))[1]["spec"]["containers"][0]["volumeMounts"][0]["mountpath"] = "/tmp"
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(ray, VERSIONS[-1])


@settings(derandomize=True, max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(options=valid, secrets=st.lists(st.text("0123456789abcdef", min_size=24, max_size=40), min_size=3, max_size=3))
def test_any_valid_options_give_valid_manifests_without_secrets(options: Options, secrets: list[str]) -> None:
    objects = manifests.objects(options)
    validate(objects, VERSIONS[-1])
    text = manifests.text(options)
    assert list(yaml.safe_load_all(text)) == objects, "YAML says what JSON says"
    assert text == manifests.text(options)
    environment = dict(zip(("LAMINAR_TOKEN", "AWS_SECRET_ACCESS_KEY", "HUB_PASSWORD"), secrets, strict=True))
    manifests.refuse_secrets(text, environment)  # would refuse
    assert not any(secret in text for secret in secrets)
    for template in templates(objects):
        check_pod(template["spec"])


def check_pod(pod: dict[str, Any]) -> None:
    """What the API server checks, and schemas do not."""
    volumes = [volume["name"] for volume in pod["volumes"]]
    assert len(set(volumes)) == len(volumes)
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert len(set(mounts)) == len(mounts)
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        variables = [one["name"] for one in container["env"]]
        assert len(set(variables)) == len(variables)
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        secret = [one for one in container["env"] if "valueFrom" not in one]
        assert {one["name"] for one in secret} <= {"HOME", "LAMINAR_STORE", "OMP_NUM_THREADS"}


def test_the_job_runs_torchrun_and_finds_the_chief() -> None:
    objects = manifests.objects(full("torchrun"))
    job, service = named(objects, "Job")["spec"], named(objects, "Service")
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 4, 4)
    pod = job["template"]["spec"]
    command = shlex.join(pod["containers"][0]["command"])
    assert command == (
        "torchrun --nnodes 4 --nproc-per-node 1 --node-rank '$(JOB_COMPLETION_INDEX)' --master-addr flowers-0.flowers --master-port 29500 "
        "-m laminar -C /project build --workers 4 head --strategy averaging:every=8"
    )
    # <job>-<index>.<subdomain> is the pod's name only if there is a headless service of that name which selects it.
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= job["template"]["metadata"]["labels"].items()
    # Kubernetes takes a podFailurePolicy and backoffLimitPerIndex with this restart policy only.
    assert pod["restartPolicy"] == "Never"
    assert job["backoffLimitPerIndex"] == 2 and job["successPolicy"]["rules"] == [{"succeededIndexes": "0"}]
    assert job["activeDeadlineSeconds"] == 7200
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_only_pods_of_the_job_reach_its_pods(kind: str) -> None:
    objects = manifests.objects(full(kind))
    policy = named(objects, "NetworkPolicy")["spec"]
    selector = policy["podSelector"]["matchLabels"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"][0] == {"from": [{"podSelector": {"matchLabels": selector}}]}
    for template in templates(objects):
        assert selector.items() <= template["metadata"]["labels"].items()
    further = policy["ingress"][1:]
    assert [rule["ports"] for rule in further] == ([[{"port": 8265}]] if kind == "kuberay" else [])


def test_a_ray_job_has_the_fields_of_its_api() -> None:
    job = named(manifests.objects(full("kuberay")), "RayJob")
    assert job["apiVersion"] == "ray.io/v1"
    fits(job["spec"], RAY_JOB, all_but=set())
    assert job["spec"]["entrypoint"] == "laminar -C /project build --on ray:auto --workers 4 head --strategy averaging:every=8"
    cluster = job["spec"]["rayClusterSpec"]
    fits(cluster, RAY_CLUSTER, all_but={"rayVersion"})
    fits(cluster["headGroupSpec"], RAY_HEAD, all_but=set())
    (workers,) = cluster["workerGroupSpecs"]
    fits(workers, RAY_WORKERS, all_but=set())
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] == 4
    start = cluster["headGroupSpec"]["rayStartParams"] | workers["rayStartParams"]
    assert all(type(value) is str for value in start.values())
    # The chief is on the head: only there is the store; only workers have GPUs; the submitter has nothing.
    submitter, head, worker = (template["spec"] for template in templates([job]))
    names = [{volume["name"] for volume in pod["volumes"]} for pod in (submitter, head, worker)]
    assert names == [{"tmp"}, {"tmp", "shm", "store", "data"}, {"tmp", "shm", "data"}]
    assert "nvidia.com/gpu" in worker["containers"][0]["resources"]["limits"]
    assert "nvidia.com/gpu" not in head["containers"][0]["resources"]["limits"]
    assert "LAMINAR_TOKEN" not in json.dumps(job)  # Ray passes on a token that is made for each run
    assert "secretKeyRef" not in json.dumps(submitter)
    assert workers["rayStartParams"] == {"num-cpus": "1"} and cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert "restartPolicy" in submitter  # KubeRay refuses one without


def test_a_spark_application_is_what_its_operator_reads() -> None:
    """Against the models that the operator publishes: what they do not know would be dropped on the way."""
    application = named(manifests.objects(full("spark")), "SparkApplication")
    assert SparkV1beta2SparkApplication.from_dict(application).to_dict() == application
    spec = application["spec"]
    assert spec["arguments"] == ["-C", "/project", "build", "--on", "spark", "--workers", "4", "head", "--strategy", "averaging:every=8"]
    for pod in (spec["driver"], spec["executor"]):
        java, python = (int(pod[part].removesuffix("m")) for part in ("memory", "memoryOverhead"))
        assert java + python == 8192
    assert spec["executor"]["instances"] == 4
    assert spec["executor"]["template"]["spec"]["automountServiceAccountToken"] is False
    told = spark_settings("k8s://https://kubernetes.default.svc", 4, "127.0.0.1", Path())
    assert {name: told[name] for name in AS_THE_LAUNCHER} == AS_THE_LAUNCHER
    assert AS_THE_LAUNCHER.items() <= spec["sparkConf"].items()
    assert str(spec["executor"]["cores"]) == told["spark.executor.cores"]
    role = named(manifests.objects(full("spark")), "Role")
    assert all("secrets" not in rule["resources"] for rule in role["rules"])


def test_an_evaluator_gets_a_pod_of_its_own() -> None:
    torchrun, kuberay, spark = (
        manifests.objects(msgspec.structs.replace(full(kind), build_args=("--evaluator",))) for kind in ("torchrun", "kuberay", "spark")
    )
    job = named(torchrun, "Job")["spec"]
    assert (job["completions"], job["parallelism"]) == (5, 5)
    command = shlex.join(job["template"]["spec"]["containers"][0]["command"])
    assert "--nnodes 5 " in command and command.endswith("build --workers 4 --evaluator")
    (group,) = named(kuberay, "RayJob")["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (5, 5, 5)
    assert named(spark, "SparkApplication")["spec"]["executor"]["instances"] == 5


def test_no_retries() -> None:
    options = msgspec.structs.replace(full("spark"), backoff=0)
    assert named(manifests.objects(options), "SparkApplication")["spec"]["restartPolicy"] == {"type": "Never"}
    options = msgspec.structs.replace(full("torchrun"), backoff=0)
    assert named(manifests.objects(options), "Job")["spec"]["backoffLimitPerIndex"] == 0


def test_the_header_shows_how_to_make_the_token_and_what_must_be_there() -> None:
    header = manifests.text(FULL).split("---")[0]
    assert "kubectl create secret generic flowers-token --namespace lab --from-file=token=/dev/stdin" in header
    for needed in (
        "Secret bucket",
        "Secret hub",
        "Secret registry",
        "PersistentVolumeClaim flowers-data",
        "PersistentVolumeClaim flowers-store",
    ):
        assert needed in header


def test_a_secret_that_was_given_as_a_word_is_refused_and_not_repeated() -> None:
    value = "s3cr3t-value-0123456789"
    options = checked(Options(workers=1, image="laminar:1", build_args=("--key", value)))
    with pytest.raises(LaminarError) as caught:
        manifests.refuse_secrets(manifests.text(options), {"MY_API_KEY": value})
    assert "MY_API_KEY" in str(caught.value) and value not in str(caught.value)


def test_the_dockerfile_and_the_manifests_agree() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    assert f"ARG SPARK_VERSION={SPARK_VERSION}\n" in text
    assert f"useradd --uid {USER} --gid {USER}" in text
    assert f"> {MAIN.removeprefix('local://')}\n" in text and "SparkContext.getOrCreate()" in text
    stages = re.findall(r"^FROM \S+ AS (\S+)$", text, re.M)
    assert stages[-1] == "laminar", "the last stage is what is built when none is named"
    assert all(user == f"{USER}:{USER}" for user in re.findall(r"^USER (\S+)$", text, re.M))
    assert 'ENTRYPOINT ["laminar"]' in text.split("AS laminar")[-1]
