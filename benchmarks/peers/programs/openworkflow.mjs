// OpenWorkflow: node openworkflow.mjs URL RUNS AT_ONCE POOL. The same work and timing as in work.py.
// Postgres backend, one worker with as many slots as runs at once. Handles poll once a second, so they are not awaited:
// the last step of each run counts, and then the backend is asked until it has recorded every end.
import { OpenWorkflow } from "openworkflow";
import { BackendPostgres } from "openworkflow/postgres";
import postgres from "postgres";

const url = process.argv[2];
const [runs, atOnce, max] = process.argv.slice(3).map(Number);
// The first connection makes the tables. A pool of another size has to be brought along, with the names it expects.
await (await BackendPostgres.connect(url)).stop();
const pool = postgres(url, { max, transform: { column: { from: postgres.toCamel } } });
const backend = BackendPostgres.fromPool(pool);
const client = new OpenWorkflow({ backend });
let executed = 0;

const fourSteps = client.defineWorkflow({ name: "four-steps" }, async ({ input, step }) => {
  const reserved = await step.run({ name: "reserve" }, () => input.number + 1);
  const charged = await step.run({ name: "charge" }, () => reserved + 1);
  const packed = await step.run({ name: "pack" }, () => charged + 1);
  return await step.run({ name: "ship" }, () => {
    executed += 1;
    return packed + 1;
  });
});

async function startAll(count) {
  let next = 0;
  const lane = async () => {
    while (next < count) await fourSteps.run({ number: next++ });
  };
  await Promise.all(Array.from({ length: Math.min(count, 100) }, lane));
}

async function untilEnded(total) {
  while (executed < total) await new Promise((resolve) => setTimeout(resolve, 1));
  while ((await backend.countWorkflowRuns()).completed < total) await new Promise((resolve) => setTimeout(resolve, 1));
}

const warm = Math.max(atOnce, 5);
const worker = client.newWorker({ concurrency: atOnce });
await worker.start();
await startAll(warm);
await untilEnded(warm);
const began = performance.now();
await startAll(runs);
await untilEnded(warm + runs);
const seconds = (performance.now() - began) / 1000;
await worker.stop();
await backend.stop();
console.log(JSON.stringify({ seconds }));
