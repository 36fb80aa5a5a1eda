// Serves the Worker in miniflare until its input ends. Lines of JSON go in as orders and come out as answers.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";

const { bundle, faults, port, persist, vars } = JSON.parse(process.argv.at(-1));

const options = {
  modules: [
    { type: "ESModule", path: "faults.js", contents: readFileSync(faults, "utf8") },
    { type: "ESModule", path: "worker.js", contents: readFileSync(bundle, "utf8") },
  ],
  port,
  host: "127.0.0.1",
  compatibilityDate: "2026-10-01",
  durableObjects: { CONTAINERS: { className: "Container", useSQLite: true } },
  kvNamespaces: ["KEYS"],
  r2Buckets: ["IMAGES"],
  queueProducers: { TURNS: "turns" },
  queueConsumers: { turns: { maxBatchSize: 1, maxBatchTimeout: 0 } },
  bindings: vars,
  resourcePersistencePath: persist,
  handleStructuredLogs: ({ message }) => process.stdout.write(`${message}\n`),
};

const miniflare = new Miniflare(convertV4MiniflareOptions(options));
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

const orders = {
  key: async ({ digest, record }) => await (await miniflare.getKVNamespace("KEYS")).put(`key:${digest}`, JSON.stringify(record)),
  no_key: async ({ digest }) => await (await miniflare.getKVNamespace("KEYS")).delete(`key:${digest}`),
  image: async ({ name, base64 }) => await (await miniflare.getR2Bucket("IMAGES")).put(name, Buffer.from(base64, "base64")),
};

await miniflare.ready;
say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const { order, ...rest } = JSON.parse(line);
  try {
    await orders[order](rest);
    say({ done: order });
  } catch (error) {
    say({ failed: order, error: String(error) });
  }
}
await miniflare.dispose();
