// The official JavaScript clients: the SDK of runs, and useStream of @langchain/react in a document of jsdom.
import { JSDOM } from "jsdom";

const [url, relayUrl] = process.argv.slice(1);
const dom = new JSDOM("<!doctype html><div id='root'></div>", { url });
const { window } = dom;
Object.assign(globalThis, { window, document: window.document, IS_REACT_ACT_ENVIRONMENT: false });

const { Client } = await import("@langchain/langgraph-sdk");
// The release that Agent Chat UI has.
const { Client: EarlierClient } = await import("langgraph-sdk-1");
const { useStream } = await import("@langchain/react");
const React = await import("react");
const { createRoot } = await import("react-dom/client");

const say = (text) => ({ messages: [{ type: "human", content: text }] });
const texts = (messages) => messages.map((message) => (typeof message.content === "string" ? message.content : message.content.map((block) => block.text ?? "").join("")));

/** Runs a turn with the SDK, and returns the names of its events and the last values. */
async function run(client, threadId, payload) {
  const names = [];
  let values, error;
  for await (const part of client.runs.stream(threadId, "default", { streamMode: ["values", "messages-tuple"], streamResumable: true, ...payload })) {
    names.push(part.event);
    if (part.event === "values") values = part.data;
    if (part.event === "error") error = part.data;
  }
  return { names: [...new Set(names)], values, error };
}

/** Puts, finds and deletes an item of the store. */
async function keep(store) {
  await store.putItem(["users", "bob"], "likes", { tea: true });
  const { value, createdAt } = await store.getItem(["users", "bob"], "likes");
  const { items } = await store.searchItems(["users"], { filter: { tea: true } });
  const { namespaces } = await store.listNamespaces({ prefix: ["users"] });
  await store.deleteItem(["users", "bob"], "likes");
  const gone = await store.getItem(["users", "bob"], "likes");
  return [value, items.map((item) => item.createdAt === createdAt), namespaces, gone];
}

async function classic(Client, suite) {
  const client = new Client({ apiUrl: url });
  const thread = await client.threads.create({ metadata: { suite } });
  const id = thread.thread_id;
  const text = await run(client, id, { input: say("hello") });
  const tool = await run(client, id, { input: say("tool") });
  const asked = await run(client, id, { input: say("ask") });
  const resumed = await run(client, id, { command: { resume: { decisions: [{ type: "approve" }] } } });
  const failed = await run(client, id, { input: say("fail") });
  const cut = await run(new Client({ apiUrl: relayUrl }), (await client.threads.create()).thread_id, { input: say("slow") });
  const other = (await client.threads.create()).thread_id;
  const { run_id } = await client.runs.create(other, "default", { input: say("wait") });
  await client.runs.cancel(other, run_id, true);
  const state = await client.threads.getState(id);
  return {
    text: [text.names, texts(text.values.messages)],
    tool: tool.values.messages.slice(-3).map((message) => [message.type, message.content]),
    asked: asked.values.__interrupt__.map((interrupt) => interrupt.value.action_requests[0].name),
    resumed: texts(resumed.values.messages).at(-1),
    failed: failed.error.error,
    cut: texts(cut.values.messages),
    stopped: (await client.runs.get(other, run_id)).status,
    state: state.values.messages.length,
    kept: await keep(client.store),
    searched: (await client.threads.search({ metadata: { graph_id: "default", suite } })).length,
  };
}

const PLACE = { name: "find_place", description: "Finds a place.", parameters: { type: "object" } };
const found = [];
const TOOLS = [{ tool: PLACE, execute: async (args) => (found.push(args), "59 N") }];

/** Mounts a component with useStream, and returns a way to wait for what it shows. */
function mount(apiUrl, transport) {
  const seen = { stream: null, waiting: [] };
  function Page() {
    seen.stream = useStream({ apiUrl, assistantId: "default", reconnectDelayMs: () => 1, tools: TOOLS, transport });
    React.useEffect(() => {
      seen.waiting = seen.waiting.filter(([is, resolve]) => !(is(seen.stream) && (resolve(seen.stream), true)));
    });
    return null;
  }
  const root = createRoot(window.document.getElementById("root"));
  root.render(React.createElement(Page));
  const until = (is) => (seen.stream && is(seen.stream) ? Promise.resolve(seen.stream) : new Promise((resolve) => seen.waiting.push([is, resolve])));
  return { until, close: () => root.unmount() };
}

/** Stops a run in the middle of its answer; returns what is shown then, and what became of the run. */
async function stopped(transport) {
  const page = mount(url, transport);
  const stream = await page.until((stream) => !stream.isLoading);
  void stream.submit(say("wait"));
  const answering = await page.until((stream) => texts(stream.messages).at(-1) === "one ");
  await answering.stop();
  const shown = await page.until((stream) => !stream.isLoading);
  const runs = await new Client({ apiUrl: url }).runs.list(shown.threadId);
  page.close();
  return [texts(shown.messages), runs.map((run) => run.status)];
}

async function hook() {
  const page = mount(url);
  const said = async (text, is, options) => {
    const stream = await page.until((stream) => !stream.isLoading);
    const submitted = stream.submit(say(text), options);
    const shown = await page.until(is);
    await submitted;
    return shown;
  };
  const ends = (text) => (stream) => !stream.isLoading && texts(stream.messages).at(-1) === text;
  const text = texts((await said("hello", ends("You said hello"))).messages);
  const tool = await said("tool", ends("It is 2"));
  const asked = await said("ask", (stream) => !stream.isLoading && stream.interrupts.length === 1);
  const waits = asked.interrupts.map((interrupt) => (interrupt.value.action_requests ?? interrupt.value.actionRequests)[0].name);
  await asked.respond({ decisions: [{ type: "approve" }] });
  const resumed = await page.until((stream) => !stream.isLoading && stream.interrupts.length === 0 && texts(stream.messages).at(-1) === "It is 2");
  const count = resumed.messages.length;
  const placed = await said("place", (stream) => stream.messages.length === count + 4 && ends("It is 2")(stream), { config: { configurable: { tools: [PLACE] } } });
  const failed = await said("fail", (stream) => !stream.isLoading && stream.error !== undefined);
  const result = {
    text,
    tool: tool.messages.slice(-3).map((message) => message.getType()),
    calls: tool.toolCalls.map((call) => [call.name, call.status]),
    waits,
    resumed: texts(resumed.messages),
    placed: [found, texts(placed.messages).slice(-4)],
    failed: String(failed.error.message ?? failed.error),
  };
  page.close();
  result.stopped = await stopped();
  const lost = mount(relayUrl);
  const stream = await lost.until((stream) => !stream.isLoading);
  stream.submit(say("slow"));
  result.cut = texts((await lost.until(ends("one two"))).messages);
  lost.close();
  return result;
}

/** The same hook over a WebSocket: a text, a tool, an approval, a failure, and a socket that is lost. */
async function socket() {
  const page = mount(url, "websocket");
  const said = async (text, is) => {
    const stream = await page.until((stream) => !stream.isLoading);
    const submitted = stream.submit(say(text));
    const shown = await page.until(is);
    await submitted;
    return shown;
  };
  const ends = (text) => (stream) => !stream.isLoading && texts(stream.messages).at(-1) === text;
  const text = texts((await said("hello", ends("You said hello"))).messages);
  const tool = texts((await said("tool", ends("It is 2"))).messages).slice(-2);
  const asked = await said("ask", (stream) => !stream.isLoading && stream.interrupts.length === 1);
  await asked.respond({ decisions: [{ type: "approve" }] });
  const resumed = await page.until((stream) => !stream.isLoading && stream.interrupts.length === 0 && texts(stream.messages).at(-1) === "It is 2");
  const failed = await said("fail", (stream) => !stream.isLoading && stream.error !== undefined);
  const result = { text, tool, resumed: resumed.messages.length, failed: String(failed.error.message ?? failed.error) };
  page.close();
  result.stopped = await stopped("websocket");
  const lost = mount(relayUrl, "websocket");
  (await lost.until((stream) => !stream.isLoading)).submit(say("slow"));
  result.cut = texts((await lost.until(ends("one two"))).messages);
  lost.close();
  return result;
}

const result = { classic: await classic(Client, "now"), earlier: await classic(EarlierClient, "earlier"), hook: await hook(), socket: await socket() };
console.log(JSON.stringify(result));
process.exit(0);
