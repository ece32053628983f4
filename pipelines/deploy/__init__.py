"""Templates for clusters: `conf/deploy/NAME.yaml` rendered to what a scheduler takes.

    job_template(load(Path("conf/deploy/kubernetes.yaml"), Kubernetes))   -> a dictionary, for JSON
    batch_script(load(Path("conf/deploy/slurm.yaml"), Slurm), request)    -> the text for sbatch

Rendering sends nothing anywhere. What is rendered holds no secret, only the names of those that
the job is given, and no value of the configuration is ever read as code: YAML and JSON get quoted
strings, the shell gets quoted words, and control characters are refused.
"""
