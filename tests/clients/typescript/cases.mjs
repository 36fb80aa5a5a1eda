// The cases of test_client.py, in one process: a line of stdin names a case and its arguments, a line of stdout is its result.
//
//   node cases.mjs file:///…/clients/typescript/src/index.ts

import { createInterface } from "node:readline";
import { mock } from "node:test";

const { AgentVMError, createAgentX, remoteRuntime } = await import(process.argv[2]);

const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => JSON.parse((await lines.next()).value);
/** Says that a place was reached, and waits until the test says more. */
const pause = (mark) => (print({ mark }), next());
const fault = ({ code, status, message, requestId, name }) => ({ code, status, message, hasId: requestId !== "", name });
const failing = async (promise) => fault(await promise.then(() => new Error("it did not fail"), (error) => error));

/** An agent in a session of its own. */
async function open(options, containerId = "ts") {
  const agentx = createAgentX(remoteRuntime(options));
  const image = await agentx.images.create({ name: "TypeScript" }, containerId);
  const session = await agentx.runtime.sessions.create(image.imageId);
  return { agentx, image, session, agent: await session.resume() };
}

const textOf = (message) => (typeof message.content === "string" ? message.content : message.content?.map((part) => part.text ?? "").join(""));

/** The events of a turn, and what a client makes of them. */
async function follow(events, at = {}) {
  const types = [];
  const cursors = [];
  let text = "";
  let outcome;
  for await (const event of events) {
    types.push(event.type);
    if (event.cursor !== undefined) cursors.push(Number(event.cursor));
    if (event.type === "message_start") text = event.data.text ?? "";
    if (event.type === "text_delta") text += event.data.text;
    if (event.type === "turn_response") outcome = event.data.outcome;
    await at[event.type]?.(event);
  }
  return { types, text, outcome, isOnce: cursors.every((cursor, index) => index === 0 || cursor > cursors[index - 1]) };
}

const cases = {
  /** A turn, seen by two channels; what the server stores of it; and the verbs of the seeds. */
  async text({ url }) {
    const { agentx, image, session, agent } = await open({ url });
    const other = createAgentX(remoteRuntime({ url }));
    const twin = await other.runtime.sessions.get(session.sessionId);
    await twin.follow();
    const heard = [];
    const ended = new Promise((resolve) => other.runtime.on("turn_response", resolve));
    other.runtime.on((event) => heard.push(event.type));
    const turn = await follow(agent.stream("Hello there"));
    await ended;
    const key = crypto.randomUUID();
    const sent = [await agent.receive("once", { clientMessageId: key }), await agent.receive("once", { clientMessageId: key })];
    const said = await agent.say("again");
    await session.setTitle("Named");
    const result = {
      turn,
      said,
      heard: heard.includes("text_delta") && heard.includes("assistant_message"),
      isOneTurn: sent[0].turnId === sent[1].turnId,
      messages: (await session.messages()).map((message) => `${message.subtype}: ${textOf(message)}`),
      title: (await agentx.runtime.sessions.get(session.sessionId)).record.title,
      names: (await agentx.images.list("ts")).map(({ name }) => name),
      isThere: (await agentx.images.get(image.imageId)).imageId === image.imageId,
      containers: await agentx.runtime.containers.list(),
      definitions: (await agentx.definitions.list()).length > 0,
      pinned: (await agentx.runtime.commands.session.pin({ sessionId: session.sessionId, pinned: true })).session.pinnedAt > 0,
      bare: await (await (await agentx.runtime.sessions.create()).resume()).say("no image"),
      states: [agentx.runtime.channel.state],
    };
    agentx.dispose();
    other.dispose();
    result.states.push(agentx.runtime.channel.state);
    return result;
  },

  async tool({ url }) {
    const { agentx, session, agent } = await open({ url });
    const asked = [];
    const approve = async ({ data }) => {
      asked.push([data.toolName, data.kind]);
      await session.answer(data, { decision: "approve" });
    };
    const turn = await follow(agent.stream("hammer"), { tool_waiting: approve });
    agentx.dispose();
    return { asked, turn };
  },

  async interrupt({ url }) {
    const { agentx, agent } = await open({ url });
    let isFirst = true;
    const stop = async () => {
      if (isFirst) await agent.interrupt();
      isFirst = false;
    };
    const turn = await follow(agent.stream("slow"), { text_delta: stop });
    agentx.dispose();
    return turn;
  },

  async errors({ url, nobody }) {
    const { agentx, agent } = await open({ url });
    const result = {
      turn: await failing(agent.say("fail")),
      command: await failing(agentx.runtime.sessions.create("img_nope")),
      http: await failing(agentx.api.session.get({ sessionId: "sess_nope" })),
      away: await failing(createAgentX(remoteRuntime({ url: nobody })).runtime.channel.connect()),
      awayHttp: await failing(createAgentX(remoteRuntime({ url: nobody })).api.session.browse()),
      isTyped: (await agent.say("fail").catch((error) => error)) instanceof AgentVMError,
    };
    agentx.dispose();
    result.closed = await failing(agentx.runtime.channel.ask("session_list", { imageId: "x" }));
    return result;
  },

  async files({ url }) {
    const { agentx, session, agent } = await open({ url });
    const record = await agentx.http.upload("ts", new Blob(["a,b\n"]), { name: "table.csv", mediaType: "text/csv" });
    const answer = await agent.say([{ type: "text", text: "Read it" }, { type: "file", data: record.attachment, mediaType: "text/csv", filename: "table.csv" }]);
    const fetched = await agentx.api.attachment.download({ attachment: record.attachment, container: "ts" });
    await agentx.api.file.put({ sessionId: session.sessionId, path: "notes/a b.txt" }, { body: new Blob(["kept"]) });
    const kept = await agentx.api.file.download({ sessionId: session.sessionId, path: "notes/a b.txt" });
    const { items } = await agentx.api.file.list({ sessionId: session.sessionId });
    const found = await agentx.api.session.search({ q: "Read", limit: 5 });
    agentx.dispose();
    return { answer, fetched: await fetched.text(), kept: await kept.text(), paths: items.map(({ path }) => path), found: found.items.length };
  },

  /** A connection that is lost in the middle of an answer, and before the reply to a message. */
  async cut({ url }) {
    const { agentx, session, agent } = await open({ url });
    const states = [];
    agentx.runtime.channel.onState((state) => states.push(state));
    let number = 0;
    const cutAt = async () => {
      number += 1;
      if (number === 2) await pause("cut");
    };
    const turn = await follow(agent.stream("slow"), { text_delta: cutAt });
    const stored = await session.messages();
    agentx.dispose();
    return { turn, stored: textOf(stored.at(-1)), states };
  },

  /** Two listeners; a connection that is lost while a call waits; and one that is closed for good. */
  async closed({ url }) {
    const sockets = [];
    class Counted extends WebSocket {
      constructor(...about) {
        super(...about);
        sockets.push(this);
      }
    }
    const { agentx, session, agent, image } = await open({ url, WebSocket: Counted });
    const { channel } = agentx.runtime;
    const heard = [[], []];
    for (const cursors of heard) {
      await session.follow();
      agentx.runtime.on((event) => void (event.cursor !== undefined && cursors.push(event.cursor)));
    }
    const turn = await follow(agent.stream("Hello there"));
    const states = [];
    channel.onState((state) => states.push(state));
    const lost = failing(channel.ask("session_list", { imageId: image.imageId }));
    sockets.at(-1).close();
    const { code } = await lost;
    await channel.connect();
    const opened = sockets.length;
    mock.timers.enable({ apis: ["setTimeout"] });
    const closed = new Promise((resolve) => sockets.at(-1).addEventListener("close", resolve));
    channel.disconnect();
    await closed;
    mock.timers.tick(3_600_000);
    mock.timers.reset();
    return { turn, heard, states, code, opened, later: sockets.length - opened };
  },

  async killed({ url }) {
    const { agentx, session, agent } = await open({ url });
    let isFirst = true;
    const kill = async () => {
      if (isFirst) await pause("kill");
      isFirst = false;
    };
    const turn = await follow(agent.stream("Tell me"), { text_delta: kill });
    const stored = await session.messages();
    agentx.dispose();
    return { turn, stored: stored.map(textOf) };
  },

  async keys({ url, key }) {
    const refused = createAgentX(remoteRuntime({ url, key: "avm_wrong" }));
    const command = await failing(refused.runtime.sessions.list("img_nope"));
    const http = await failing(refused.api.auth.whoami());
    const { agentx, agent } = await open({ url, key: async () => key }, "default");
    const said = await agent.say("Let me in");
    const { permissions } = await agentx.api.auth.whoami();
    agentx.dispose();
    return { command, http, state: refused.runtime.channel.state, said, permissions };
  },
};

for (;;) {
  const { value, done } = await lines.next();
  if (done) break;
  const { name, ...given } = JSON.parse(value);
  try {
    print({ result: await cases[name](given) });
  } catch (error) {
    print({ failed: `${error.stack}` });
  }
}
