// The official clients of MCP in JavaScript, in both eras: one turn of each kind. `sdk` is the earlier package. Prints JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as EarlierClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as EarlierTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const base = process.argv.at(-1);

async function open(mode, headers = {}, fetched = fetch) {
  const about = [new URL(`${base}/mcp`), { requestInit: { headers }, fetch: fetched }];
  const client = mode === "sdk" ? new EarlierClient({ name: "test", version: "1" }) : new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(mode === "sdk" ? new EarlierTransport(...about) : new StreamableHTTPClientTransport(...about));
  return client;
}
// The earlier package has the schema of the result before the options.
const schemaOf = (mode) => (mode === "sdk" ? [undefined] : []);

async function look(mode) {
  const seen = {};
  const client = await open(mode);
  const schema = schemaOf(mode);
  const ask = (message, more = {}, options = {}) => client.callTool({ name: "ask_default", arguments: { message, ...more } }, ...schema, options);
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  const text = await ask("hello there");
  seen.text = [text.content[0].text, text.structuredContent.outcome];
  const progress = [];
  const tool = await ask("tool", {}, { onprogress: ({ message }) => void progress.push(message) });
  seen.tool = [tool.structuredContent.answer, progress.length > 0];
  const waiting = await ask("ask");
  seen.waiting = [waiting.structuredContent.outcome, waiting.structuredContent.waits.length];
  const failed = await ask("fail");
  seen.failed = [failed.isError, failed.content[0].text];
  seen.unknown = await client.callTool({ name: "ask_nobody", arguments: { message: "x" } }).catch((error) => error.code);
  {
    // Whoever leaves stops the turn; the conversation goes on.
    const leave = new AbortController();
    const left = ask("slow", {}, { signal: leave.signal, onprogress: () => leave.abort() });
    seen.left = await left.then(() => "answered", () => "left");
    do {
      seen.outcome = (await (await fetch(`${base}/v1/turns`)).json()).items[0].outcome;
    } while (!seen.outcome);
    const again = await ask("hello", { session_id: text.structuredContent.sessionId });
    seen.again = [again.structuredContent.answer, again.structuredContent.sessionId === text.structuredContent.sessionId];
  }
  {
    // A request that is sent again under its key is the same turn.
    const keyed = await open(mode, { "Idempotency-Key": `key-${mode}` });
    const turns = [];
    for (let number = 0; number < 2; number += 1) {
      turns.push((await keyed.callTool({ name: "ask_default", arguments: { message: "once" } })).structuredContent.turnId);
    }
    seen.repeated = turns[0] === turns[1];
    await keyed.close();
  }
  await client.close();
  return seen;
}

const SLOW = { name: "ask_default", arguments: { message: "slow" } };
const keyOf = (mode) => ({ "Idempotency-Key": `slow-${mode}` });

/** Asks with a key, and loses the connection after the first words. */
async function lose(mode) {
  const cut = new AbortController();
  const lossy = (url, init = {}) => fetch(url, { ...init, signal: init.signal ? AbortSignal.any([init.signal, cut.signal]) : cut.signal });
  const client = await open(mode, keyOf(mode), lossy);
  await client.callTool(SLOW, ...schemaOf(mode), { signal: cut.signal, onprogress: () => cut.abort() }).then(
    () => { throw new Error("the connection was not lost"); },
    () => undefined,
  );
}

const modes = ["auto", "legacy", "sdk"];
const eras = {};
for (const mode of modes) eras[mode] = await look(mode);
await Promise.all(modes.map(lose));
await fetch(`${base}/v1/messages`, { method: "POST", body: JSON.stringify({ content: "go" }) });
for (const mode of modes) {
  const again = await open(mode, keyOf(mode));
  const { answer, outcome } = (await again.callTool(SLOW)).structuredContent;
  eras[mode].resumed = [answer, outcome];
  await again.close();
}
console.log(JSON.stringify(eras));
process.exit(0);
