"""The file of `coadapt up --settings`: settings by name, as `coadapt calibrate` writes them."""

from __future__ import annotations

from pathlib import Path

from ..core import safe_yaml
from ..core.errors import SettingError
from ..core.settings import Settings
from ..core.settings_change import typed

POLICY = ("policy", "policy_options")


def with_file(now: Settings, path: Path) -> Settings:
    """Return settings with those of a file. Raises: SettingError, in one sentence.

    A file that names a policy goes with no other one: whatever was asked for beside it would be lost.
    """
    try:
        found = safe_yaml.read(path.read_bytes())
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except safe_yaml.YamlProblem as error:
        raise SettingError(f"{path}: {error}") from None
    if not isinstance(found, dict) or not found:
        raise SettingError(f"{path}: holds no settings, such as policy: fifo")
    default = Settings.model_fields["policy"].default
    asked = bool(now.policy_options) or now.policy != default
    if asked and any(name in found for name in POLICY) and now.policy != found.get("policy"):
        raise SettingError(
            f"{path}: it names the policy {found.get('policy', default)}, and --policy {now.policy}"
        )
    if now.policy_options and "policy_options" in found:
        raise SettingError(f"{path}: it has options of the policy, and --policy-option gives some, too")
    try:
        return typed(now, found)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
