package runner

const spawnedVariable = "BRIG_TEST_RUNNER_SPAWNED"
