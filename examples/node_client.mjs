// A client by hand: Node 22 or newer, no packages. It sends and reads the same frames as `agentxjs` 1.9.
//
//   node examples/node_client.mjs ws://localhost:8080/ws "Hello!"

import { pathToFileURL } from "node:url";

const TIMEOUT = 30_000;

/** Connects, and resolves to `{ request, on, dispose }`. */
export async function createAgentX({ serverUrl }) {
  if (typeof WebSocket === "undefined") throw new Error(`This needs Node 22 or newer; this is Node ${process.versions.node}`);
  const socket = new WebSocket(serverUrl);
  const pending = new Map(); // request id -> resolve
  const handlers = new Map(); // event type -> set of handlers
  const subscribed = new Set(); // session ids
  const stats = { acknowledged: 0 };

  const send = (frame) => socket.send(JSON.stringify(frame));

  socket.addEventListener("message", ({ data }) => {
    let event = JSON.parse(data);
    if ("__msgId" in event && "__payload" in event) {
      // The reliable form: acknowledge first, then read the event, which is JSON within JSON.
      send({ __ack: event.__msgId });
      stats.acknowledged += 1;
      event = JSON.parse(event.__payload);
    }
    const resolve = event.category === "response" && pending.get(event.data.requestId);
    if (resolve) {
      pending.delete(event.data.requestId);
      resolve(event);
    } else {
      for (const type of [event.type, "*"]) for (const handler of handlers.get(type) ?? []) handler(event);
    }
  });

  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve, { once: true });
    socket.addEventListener("error", () => reject(new Error(`Cannot connect to ${serverUrl}`)), { once: true });
  });

  async function request(type, data = {}) {
    const requestId = `req_${crypto.randomUUID()}`;
    const answered = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`Request timeout: ${type}`)), TIMEOUT);
      pending.set(requestId, (event) => (clearTimeout(timer), resolve(event)));
    });
    send({
      type,
      timestamp: Date.now(),
      data: { ...data, requestId },
      source: "command",
      category: "request",
      intent: "request",
    });
    const response = await answered;
    for (const sessionId of response.data.__subscriptions ?? []) {
      if (!subscribed.has(sessionId)) {
        subscribed.add(sessionId);
        send({ type: "subscribe", sessionId });
      }
    }
    return response;
  }

  function on(type, handler) {
    if (!handlers.has(type)) handlers.set(type, new Set());
    handlers.get(type).add(handler);
    return () => handlers.get(type).delete(handler);
  }

  return { request, on, dispose: async () => socket.close(), stats };
}

async function main(serverUrl = "ws://localhost:8080/ws", content = "Hello!") {
  const agentx = await createAgentX({ serverUrl });

  // A failed command is answered, not rejected: `data.error` says why, `data.errorCode` is stable.
  const ask = async (type, data) => {
    const { data: reply } = await agentx.request(type, data);
    if (reply.error) throw new Error(`${reply.error} (${reply.errorCode})`);
    return reply;
  };

  await ask("container_create_request", { containerId: "user-alice" });
  const { record } = await ask("image_create_request", {
    containerId: "user-alice",
    config: { name: "My Assistant", systemPrompt: "You are a helpful assistant." },
  });

  const ended = new Promise((resolve) => agentx.on("turn_response", resolve));
  agentx.on("text_delta", (event) => process.stdout.write(event.data.text));
  agentx.on("tool_use_stop", ({ data }) => console.log(`\n[${data.toolName} ${JSON.stringify(data.input)}]`));
  agentx.on("error_message", (event) => console.error(`${event.data.content} (${event.data.errorCode})`));

  await ask("message_send_request", { imageId: record.imageId, content });
  const { data: turn } = await ended;
  console.log();
  console.error(
    `${turn.outcome}; ${turn.usage.inputTokens} tokens in, ${turn.usage.outputTokens} out; ` +
      `${agentx.stats.acknowledged} frames acknowledged`,
  );
  await agentx.dispose();
  return turn.outcome === "completed" ? 0 : 1;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    process.exitCode = await main(...process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}
