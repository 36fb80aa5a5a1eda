// The official clients of MCP in JavaScript, in both eras: one turn of each kind. `sdk` is the earlier package. Prints JSON.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as EarlierClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as EarlierTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const base = process.argv.at(-1);

async function look(mode) {
  const seen = {};
  const open = async (headers = {}) => {
    const about = [new URL(`${base}/mcp`), { requestInit: { headers } }];
    const client = mode === "sdk" ? new EarlierClient({ name: "test", version: "1" }) : new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(mode === "sdk" ? new EarlierTransport(...about) : new StreamableHTTPClientTransport(...about));
    return client;
  };
  const client = await open();
  // The earlier package has the schema of the result before the options.
  const schema = mode === "sdk" ? [undefined] : [];
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
    const again = await ask("hello", { session_id: text.structuredContent.sessionId });
    seen.again = [again.structuredContent.answer, again.structuredContent.sessionId === text.structuredContent.sessionId];
  }
  {
    // A request that is sent again under its key is the same turn.
    const keyed = await open({ "Idempotency-Key": `key-${mode}` });
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
console.log(JSON.stringify({ auto: await look("auto"), legacy: await look("legacy"), sdk: await look("sdk") }));
