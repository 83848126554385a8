"""What `holdfast doctor` checks. Each check says what it found, whether it must be mended, and how.

machine      Python, packages, extras
places       settings and their file, API keys, the environment, the file of a SQLite database
database     reachable, schema, rights, clock; on Postgres the server's own answers
modules      the modules and the codec that the settings name can be loaded, and workflow names are unique
fleet        live workers, runs that nobody serves, blocked runs
checks       the record of one check
"""

from .checks import Check, State
from .database import check_database
from .fleet import check_fleet
from .machine import check_machine
from .modules import check_codec, check_modules
from .places import check_file, check_keys, check_settings

__all__ = [
    "Check",
    "State",
    "check_codec",
    "check_database",
    "check_file",
    "check_fleet",
    "check_keys",
    "check_machine",
    "check_modules",
    "check_settings",
]
