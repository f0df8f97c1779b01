"""A config with settings as users give them, as samebits.api makes it."""

from samebits.config import override
from samebits.families.logic_ca.settings import read_settings


def configured(config, settings):
    return override(config, read_settings(config, settings))
