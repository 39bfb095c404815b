"""The engine against the model: anything a user can do, in any order, on both backends (COMMIT-8, HISTORY-3)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from engine_machine import EngineMachine, SqliteMachine

RULES = ("COMMIT-1", "COMMIT-2", "COMMIT-5", "COMMIT-8", "SNAP-1", "ERASE-1", "COMPACT-1", "BRANCH-1", "BRANCH-2")


@pytest.mark.rule(*RULES)
@pytest.mark.parametrize(("machine", "runs"), [(EngineMachine, 80), (SqliteMachine, 50)])
def test_the_engine_holds_what_the_model_holds(machine: type[EngineMachine], runs: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),  # the steps are seeds, which do not shrink
            suppress_health_check=list(HealthCheck),
        ),
    )
