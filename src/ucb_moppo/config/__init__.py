"""Settings as they are given, and the config they resolve to: two types, and nothing is left open in the second.

``config.json`` of a run holds what was decided. May import the root, and of other rooms what is to be set there.
"""

from ucb_moppo.config.elsewhere import name_of
from ucb_moppo.config.kinds import check_types
from ucb_moppo.config.presets import default_settings, from_json, from_run, make_settings, settle
from ucb_moppo.config.published import published_settings
from ucb_moppo.config.resolved import Division, MoppoConfig, PeerConfig, RunConfig, resolve
from ucb_moppo.config.settings import (
    AUTO,
    MoppoSettings,
    PeerSettings,
    RunSettings,
    override,
    setting_types,
    settings_that_count,
    settings_type,
)

__all__ = [
    "AUTO",
    "Division",
    "MoppoConfig",
    "MoppoSettings",
    "PeerConfig",
    "PeerSettings",
    "RunConfig",
    "RunSettings",
    "check_types",
    "default_settings",
    "from_json",
    "from_run",
    "make_settings",
    "name_of",
    "override",
    "published_settings",
    "resolve",
    "setting_types",
    "settings_that_count",
    "settings_type",
    "settle",
]
