"""Who may reach the pods: each other, and an operator that has to. Pods go out as they like, for data and remotes."""

from __future__ import annotations

from collections.abc import Sequence

from laminar.launch.kubernetes.options import Options
from laminar.launch.kubernetes.pod import labels, metadata
from laminar.launch.kubernetes.yaml_text import Object


def policy(options: Options, others: Sequence[Object] = ()) -> Object:
    """Only the pods of this job reach its ports; `others` are further rules."""
    selector = {"matchLabels": labels(options)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(options),
        "spec": {
            "podSelector": selector,
            "policyTypes": ["Ingress"],
            "#ports": "Gradients go over ports that are chosen while it runs, so all ports, but from pods of this job only.",
            "ingress": [{"from": [{"podSelector": selector}]}, *others],
        },
    }
