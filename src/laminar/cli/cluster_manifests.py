"""Write Kubernetes manifests of a build on several pods.

They are printed, or written to --out, for `kubectl apply -f`. Nothing is started, no cluster is asked, and no secret is read: a manifest
names Secrets. --kind torchrun is an Indexed Job and needs nothing but Kubernetes; the comment at its top shows the command that makes the
Secret with the token. kuberay and spark are for clusters that have these operators.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, remark, say


def run(
    workers: Annotated[int, typer.Option("--workers", help="Pods that train.")],
    image: Annotated[str, typer.Option("--image", help="The image; the Dockerfile in Laminar's repository makes one.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="What runs the workers: torchrun, kuberay or spark.")] = "torchrun",
    name: Annotated[str, typer.Option("--name", help="Of the job, and of all that belongs to it.")] = "laminar",
    namespace: Annotated[str | None, typer.Option("--namespace", help="kubectl's current one if left out.")] = None,
    project: Annotated[str, typer.Option("--project", metavar="DIR", help="Where the image has laminar.toml.")] = "/project",
    cpu: Annotated[str, typer.Option("--cpu", metavar="CORES", help="Of each pod.")] = "2",
    memory: Annotated[str, typer.Option("--memory", metavar="BYTES", help="Of each pod.")] = "4Gi",
    gpu: Annotated[int, typer.Option("--gpu", metavar="N", help="NVIDIA GPUs of each worker's pod.")] = 0,
    node_selector: Annotated[
        list[str] | None, typer.Option("--node-selector", metavar="KEY=VALUE", help="Nodes to run on, by label.")
    ] = None,
    toleration: Annotated[
        list[str] | None, typer.Option("--toleration", metavar="KEY[=VALUE][:EFFECT]", help="Taints of nodes to run on all the same.")
    ] = None,
    token_secret: Annotated[
        str | None,
        typer.Option("--token-secret", metavar="SECRET", help="torchrun: has the token under the key token; NAME-token if left out."),
    ] = None,
    remote_secret: Annotated[
        str | None, typer.Option("--remote-secret", metavar="SECRET", help="Each of its keys becomes a variable: what remotes ask for.")
    ] = None,
    secret_env: Annotated[
        list[str] | None, typer.Option("--secret-env", metavar="NAME=SECRET:KEY", help="A variable whose value is in a Secret.")
    ] = None,
    pull_secret: Annotated[str | None, typer.Option("--pull-secret", metavar="SECRET", help="For a registry that asks who pulls.")] = None,
    data_claim: Annotated[
        str | None, typer.Option("--data-claim", metavar="PVC:/path", help="A volume with data, which all pods read.")
    ] = None,
    store_claim: Annotated[
        str | None, typer.Option("--store-claim", metavar="PVC:/path", help="A volume for the store; without one it ends with the pod.")
    ] = None,
    backoff: Annotated[int, typer.Option("--backoff", metavar="N", help="Times that what failed is started again.")] = 3,
    deadline: Annotated[int | None, typer.Option("--deadline", metavar="SECONDS", help="End it after so long.")] = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="VERSION", help="Of Ray or Spark in the image; Spark's is 4.0.1 if left out.")
    ] = None,
    build_args: Annotated[
        str | None, typer.Option("--build-args", metavar="WORDS", help='For laminar build: "head --strategy sync".')
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write.")] = None,
    json: Json = False,
) -> None:
    import json as encoder

    from laminar.core.atomic import write_text
    from laminar.launch.kubernetes import manifests
    from laminar.launch.kubernetes import options as read

    options = read.checked(
        read.Options(
            workers=workers,
            image=image,
            kind=kind,  # type: ignore[arg-type]  # checked() says which there are
            name=name,
            namespace=namespace,
            project=project,
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            node_selector=read.read_pairs("--node-selector", node_selector or ()),
            tolerations=read.read_tolerations(toleration or ()),
            token_secret=token_secret,
            remote_secret=remote_secret,
            secret_env=read.read_secret_env(secret_env or ()),
            pull_secret=pull_secret,
            data_claim=read.read_claim("--data-claim", data_claim),
            store_claim=read.read_claim("--store-claim", store_claim),
            backoff=backoff,
            deadline=deadline,
            engine_version=engine_version,
            build_args=read.read_words(build_args),
        )
    )
    if json:
        written = encoder.dumps(manifests.objects(options), indent=2, ensure_ascii=False) + "\n"
    else:
        written = manifests.text(options)
    manifests.refuse_secrets(written, os.environ)
    if options.store_claim is None:
        remark("without --store-claim the store ends with its pod: a layer that is not pushed is lost, and nothing is resumed")
    if out is None:
        typer.echo(written, nl=False)
    else:
        write_text(out, written)
        say(f"{out}: kubectl apply -f {out}")
