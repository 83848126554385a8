"""The API's description is true: schemathesis reads it, and calls a real server with whatever it allows and forbids."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig

from holdfast.web import api
from tests.web.stage import HEADERS, KEY, RUNS, Server

description = api("sqlite:///:memory:", keys=[KEY]).openapi()
# For a long look: EXAMPLES=400, others each time.
EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
FEW = settings(
    max_examples=EXAMPLES or 6,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=not EXAMPLES,
)
# What only the database knows (a cursor, arguments that must fit, a step's key) can be valid and refused all the same.
ALSO = {"positive_data_acceptance": {"expected-statuses": ["2xx", "400", "404", "409", "422"]}}
schema = schemathesis.openapi.from_dict(description, config=SchemathesisConfig.from_dict({"checks": ALSO}))
valid = schemathesis.openapi.from_dict(
    description, config=SchemathesisConfig.from_dict({"checks": ALSO, "generation": {"mode": "positive"}})
)


# /v1/live does not end by itself.
@schema.exclude(path="/v1/live").parametrize()
@FEW
def test_answers_conform_to_the_openapi_description(case: Any, server: Server) -> None:
    assert case.call_and_validate(base_url=server.address, headers=HEADERS, timeout=60).status_code < 500


# A delete would leave nothing for the others.
@valid.include(path_regex="{run_id}").exclude(method="DELETE").parametrize()
@settings(FEW, max_examples=EXAMPLES // 3 or 3)
def test_answers_about_existing_runs_conform_to_the_openapi_description(case: Any, server: Server) -> None:
    for run_id, workflow in RUNS.items():
        # A live run's stream stays open, and its result may be waited for longer than anybody here waits.
        if run_id != "waiting" or not case.path.endswith(("/stream", "/result")):
            case.path_parameters["run_id"] = run_id
            if "workflow" in case.path_parameters:
                case.path_parameters["workflow"] = workflow
            assert case.call_and_validate(base_url=server.address, headers=HEADERS, timeout=60).status_code < 500
