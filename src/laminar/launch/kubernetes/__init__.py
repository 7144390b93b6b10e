"""Kubernetes: manifests of a training, as text. Nothing here talks to a cluster, and nothing reads a secret: a manifest names the Secret.

Read in this order: options.py (what may be chosen, checked), names.py and quantities.py (as Kubernetes writes them), pod.py (what the
pods of every kind have in common), torchrun_job.py (plain Kubernetes), kuberay.py and spark_on_kubernetes.py (for operators that are
there), network.py (who may reach the pods), yaml_text.py (objects as text, with comments), manifests.py (all of it together).

What is checked against what: Services, Jobs, policies and every pod template against the API schemas of Kubernetes, SparkApplications
against the models that their operator publishes; of RayJobs only pod templates, names and kinds of fields, as the operator's API
reference gives them, for it publishes no schema that could be installed. No API server was there to try any of it on.
Not here: launchers, and what runs inside the pods.
"""
