// The names of the headers that the official clients of the gateways send. Prints them as JSON.
import { Role } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";
import { HttpAgent } from "@ag-ui/client";
import Anthropic from "@anthropic-ai/sdk";
import { Client as LangGraph } from "@langchain/langgraph-sdk";
import { Client as Mcp, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { DefaultChatTransport } from "ai";
import OpenAI from "openai";

const sent = new Set();
globalThis.fetch = async (input, about) => {
  for (const [name] of new Headers(about?.headers ?? input.headers)) sent.add(name);
  throw new TypeError("nobody listens");
};
console.error = () => {};

const url = "http://localhost:1";
const headers = { Authorization: "Bearer key" };
const said = { role: "user", content: "Hello!" };
const about = { apiKey: "key", baseURL: url, maxRetries: 0, dangerouslyAllowBrowser: true };
const graph = new LangGraph({ apiUrl: url, apiKey: "key", callerOptions: { maxRetries: 0 } });
const agent = new HttpAgent({ url, headers });
agent.addMessage({ id: "1", ...said });
const mcp = (mode) => new Mcp({ name: "page", version: "1" }, { versionNegotiation: { mode } });
const card = { supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0" }], capabilities: { streaming: true, extensions: [] } };
const part = { content: { $case: "text", value: "Hello!" }, filename: "", mediaType: "" };
const message = { messageId: "1", contextId: "", taskId: "", role: Role.ROLE_USER, extensions: [], referenceTaskIds: [], parts: [part] };
const read = async (stream) => {
  for await (const piece of stream) void piece;
};

await Promise.allSettled([
  new OpenAI(about).responses.create({ model: "default", input: "Hello!", stream: true }),
  new Anthropic(about).messages.create({ model: "default", max_tokens: 1, messages: [said] }),
  read(graph.runs.stream("t", "default", { input: {} })),
  read(graph.runs.joinStream("t", "r", { lastEventId: "1" })),
  ...["legacy", "auto"].map((mode) => mcp(mode).connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))),
  agent.runAgent(),
  new DefaultChatTransport({ api: url, headers }).sendMessages({ chatId: "c", trigger: "submit-message", messages: [] }),
  new ClientFactory().createFromAgentCard(card).then((client) => read(client.sendMessageStream({ tenant: "", message }))),
]);
console.log(JSON.stringify([...sent]));
process.exit(0);
