"""What `holdfast doctor` looks at. Each check says what it found, whether that must be mended, and how.

machine      Python, packages, extras
places       settings and their file, API keys, the environment, the file of a SQLite database
database     reachable, schema, rights, clock; on Postgres asked of the server itself
modules      what the settings name can be loaded, the codec too, and no two workflows have one name
fleet        workers that are alive, runs that nobody serves, runs that are blocked
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
