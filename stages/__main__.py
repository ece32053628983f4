"""The door of every stage: `python -m stages NAME [--debug]`, as `dvc.yaml` calls it.

Reads and checks `params.yaml`, runs the stage's variant, checks and publishes its outputs, and
appends to the run log. Exit status 0 on success; 1 with one readable message on an error that a
user can mend, 130 after Ctrl-C; any other exception shows its traceback, since it is a defect of
Longline.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
import threading
import time
import traceback
from pathlib import Path

from schemas.checks import preload
from schemas.errors import UserError, as_user_error
from stages.runtime import runlog, usage
from stages.runtime.context import StageContext
from stages.runtime.digest import conf_digest
from stages.runtime.layout import STAGES
from stages.runtime.params import COMPOSE, Params, load_params
from stages.runtime.processes import is_first, launch, one_gpu
from stages.runtime.progress import say
from stages.runtime.variant import load_variant


def run_stage(stage: str, params: Params) -> None:
    """Run one stage in the current folder, from its inputs to its published outputs."""
    if stage not in STAGES:
        raise UserError(f"no stage '{stage}'", allowed=[*STAGES, "params"])
    config = params.stages[stage]
    variant = load_variant(stage, config.kind)
    started = time.monotonic()
    if STAGES[stage].writes:
        threading.Thread(target=preload, daemon=True).start()
    context = StageContext.create(stage, params)
    usage.take()
    status = "failed"
    try:
        metrics = variant.run(config, context)
        if is_first():
            context.publish(metrics)
        status = "ok"
    finally:
        context.close()
        seconds = round(time.monotonic() - started, 2)
        if is_first():
            log(params, context, status, seconds)
    say(f"{stage} done in {seconds} s")


def log(params: Params, context: StageContext, status: str, seconds: float) -> None:
    """One entry of the run log."""
    stage = context.layout.name
    runlog.append(
        {
            "stage": stage,
            "variant": params.stages[stage].kind,
            "profile": params.profile,
            "seconds": seconds,
            "status": status,
            "rows": context.rows_written(),
            **usage.take(),
            "identity": os.environ.get("LONGLINE_IDENTITY", ""),
        }
    )


def check_params(params: Params) -> None:
    """The guard stage: `params.yaml` must be what `conf/` composes to, and `corpus.path` there.

    DVC itself says only that a dependency is missing, before the corpus stage can say more.
    """
    path = Path(str(params.raw["corpus"]["path"]))
    if not path.exists():
        raise UserError(
            f"corpus.path: no file or folder '{path}'",
            fix=f"mkdir -p {shlex.quote(str(path))} and put the documents there, or correct "
            "corpus.path",
        )
    found = conf_digest(Path("conf"))
    if found != params.conf_digest:
        raise UserError(
            f"conf/ has changed since params.yaml was composed "
            f"({params.conf_digest} there, {found} now)",
            fix=f"{COMPOSE} && dvc repro",
        )
    target = Path("reports") / "params.json"
    target.parent.mkdir(exist_ok=True)
    work = target.with_suffix(f".{os.getpid()}.tmp")
    work.write_text(f'{{"conf_digest": "{found}"}}\n', encoding="utf-8")
    os.replace(work, target)


def main(arguments: list[str]) -> int:
    try:
        return answer(arguments)
    finally:
        gc.freeze()  # the interpreter's last collection would cost as much as a small stage


def answer(arguments: list[str]) -> int:
    """Run the stage that is named; what went wrong is said on stderr."""
    # Spinning threads of OpenMP slow training tenfold when another process wants a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    debug = "--debug" in arguments or os.environ.get("LONGLINE_DEBUG") == "1"
    names = [argument for argument in arguments if argument != "--debug"]
    try:
        if len(names) != 1:
            raise UserError("usage: python -m stages NAME [--debug]", allowed=[*STAGES, "params"])
        params = load_params()
        if names[0] == "params":
            check_params(params)
        else:
            launch(names[0], params.runtime.accelerate, arguments)
            one_gpu(names[0])
            run_stage(names[0], params)
        return 0
    except KeyboardInterrupt:
        print("error: interrupted\n  fix: dvc repro (it goes on from here)", file=sys.stderr)
        return 130
    except Exception as error:
        readable = as_user_error(error)
        if readable is None or debug:
            traceback.print_exc()
        if readable is not None:
            print(f"error: {readable}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    # What a stage imports (torch, Great Expectations) is a million objects that stay: with the
    # default of 700 new ones they are walked again and again while they load.
    gc.set_threshold(50_000, 20, 20)
    sys.exit(main(sys.argv[1:]))
