"""Composing `params.yaml` from `conf/`: the same calls, and the same bytes, as `dvc exp run`.

compose_params(["distractors=random"])        -> validated parameters, nothing written
write_params(["distractors=random"])          -> params.yaml
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml

from schemas.errors import UserError
from stages.runtime.params import Params, parse_params

CONF = Path("conf")
PARAMS = Path("params.yaml")
PLUGINS = Path("pipelines/hydra")
_NO_CHOICE = ("hydra", "conf_digest")
"""Top keys that nobody sets."""


def compose_text(overrides: Sequence[str] = (), root: Path | None = None) -> str:
    """The text of `params.yaml` for these Hydra overrides. Raises `UserError` with the choices."""
    from hydra import compose, initialize_config_dir
    from hydra.core.plugins import Plugins
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from stages.runtime.digest import conf_digest

    root = (root or Path.cwd()).resolve()
    if not (root / CONF / "config.yaml").exists():
        raise UserError(f"no {CONF}/config.yaml in {root}", fix="run from the project's folder")
    plugins = str(root / PLUGINS)
    sys.path.append(plugins)
    try:
        Plugins.instance()
        # Hydra loads plugins once a process; the digest must be of this root's conf/.
        OmegaConf.register_new_resolver(
            "conf_digest", lambda: conf_digest(root / CONF), replace=True
        )
        with initialize_config_dir(str(root / CONF), version_base=None):
            composed = compose(config_name="config", overrides=list(overrides))
        OmegaConf.resolve(composed)
        return str(OmegaConf.to_yaml(composed))
    except MissingConfigException as error:
        missing = str(error.missing_cfg_file)
        if not error.options:
            raise _cannot_compose(overrides, str(error)) from error
        raise UserError(
            f"cannot compose {CONF}/ with {list(overrides)}: there is no '{missing}'",
            allowed=[str(option) for option in error.options],
            fix=f"-S {missing.rpartition('/')[0]}=CHOICE (`longline params show` lists all)",
        ) from error
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        beside = getattr(error.__cause__, "parent_node", None)
        if isinstance(beside, DictConfig):  # a key that is not there, as Hydra finds out
            raise UserError(
                f"cannot compose {CONF}/ with {list(overrides)}: there is no key "
                f"'{getattr(error.__cause__, 'full_key', '')}'",
                allowed=[str(key) for key in beside if key not in _NO_CHOICE],
                fix="use one of these, or `longline params show` for the groups",
            ) from error
        raise _cannot_compose(overrides, str(error)) from error
    finally:
        sys.path.remove(plugins)


def _cannot_compose(overrides: Sequence[str], why: str) -> UserError:
    """What Hydra refuses, in the words of this project where they are known."""
    for override in overrides:
        if "=" not in override and not override.startswith("~"):
            return UserError(f"'{override}' is no KEY=VALUE", fix=f"-S {override}=VALUE")
        with suppress(UserError):
            key, values = sweep(override)
            if len(values) > 1:
                return UserError(
                    f"'{override}' has several values, and a run takes one",
                    fix=f"-S {key}={values[0]}, or all of them: longline ablate -S {override}",
                )
    return UserError(
        f"cannot compose {CONF}/ with {list(overrides) or 'no overrides'}: {why.strip()}",
        fix="`longline params show` lists the groups and their choices",
    )


def compose_params(overrides: Sequence[str] = (), root: Path | None = None) -> Params:
    """Compose and validate; writes nothing."""
    return parse_params(yaml.safe_load(compose_text(overrides, root)))


def write_params(overrides: Sequence[str] = ()) -> bool:
    """Compose, validate and write `params.yaml`. Returns whether it changed."""
    text = compose_text(overrides)
    parse_params(yaml.safe_load(text))
    return replace_params(Path.cwd(), text)


def replace_params(root: Path, text: str) -> bool:
    """Put a composed text in place of `params.yaml`, whole. Returns whether it changed."""
    path = root / PARAMS
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    work = path.with_name(f".{PARAMS}.{os.getpid()}")
    work.write_text(text, encoding="utf-8")
    os.replace(work, path)
    return True


def check_params() -> Params:
    """`params.yaml` must be what `conf/` composes to now. Raises `UserError` with the fix."""
    text = compose_text()
    if not PARAMS.exists() or PARAMS.read_text(encoding="utf-8") != text:
        raise UserError(f"{PARAMS} is not what {CONF}/ composes to", fix="longline params compose")
    return parse_params(yaml.safe_load(text))


def groups(root: Path = CONF) -> dict[str, list[str]]:
    """Every config group with its choices, as `-S GROUP=CHOICE` takes them.

    Grids and deployments lie in conf/ too, but are no parameters (see stages/runtime/digest.py).
    """
    from stages.runtime.digest import parameter_files

    found: dict[str, list[str]] = {}
    for path in parameter_files(root):
        group = path.parent.relative_to(root).as_posix()
        if group != ".":
            found.setdefault(group, []).append(path.stem)
    return found


def sweep(override: str) -> tuple[str, list[str]]:
    """A key and the values that an override sweeps over; one value where it sweeps over none.

    >>> sweep("distractors=random,tiered")
    ('distractors', ['random', 'tiered'])

    Takes Hydra's choices (`a,b`, `choice(a,b)`) and ranges (`range(0,3)`); raises `UserError`.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
        if not parsed.is_sweep_override():
            return parsed.get_key_element(), [parsed.get_value_element_as_str()]
        if not parsed.is_discrete_sweep():
            raise UserError(
                f"'{override}' has no list of values",
                fix="name the values, as in distractors=random,tiered or seed.train=range(0,3)",
            )
        return parsed.get_key_element(), list(parsed.sweep_string_iterator())
    except HydraException as error:
        raise UserError(
            f"cannot read '{override}': {str(error).strip()}", fix="-S KEY=VALUE,VALUE"
        ) from error
