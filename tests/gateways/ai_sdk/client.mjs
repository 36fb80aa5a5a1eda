// The official client of the AI SDK: one turn of each kind. Prints what it saw as JSON.
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";

const base = process.argv.at(-1);
const api = `${base}/ai-sdk/default`;
const seen = {};

class Chat extends AbstractChat {
  constructor({ transport = {}, ...init }) {
    const state = {
      status: "ready",
      error: undefined,
      messages: [],
      pushMessage: (message) => void (state.messages = [...state.messages, message]),
      popMessage: () => void (state.messages = state.messages.slice(0, -1)),
      replaceMessage: (index, message) => void (state.messages = state.messages.with(index, message)),
      snapshot: (value) => structuredClone(value),
    };
    super({ transport: new DefaultChatTransport({ api, ...transport }), state, ...init });
  }
}
const shown = (chat) =>
  chat.messages.map(({ role, parts }) => [role, ...parts.map((part) => [part.type, part.text ?? part.state, part.output].filter((value) => value !== undefined))]);
const settled = async (chat) => {
  while (!["ready", "error"].includes(chat.status) || chat.expects?.()) await new Promise((resolve) => setTimeout(resolve, 5));
};

{
  const chat = new Chat({ id: "text" });
  await chat.sendMessage({ text: "hello there" });
  await chat.sendMessage({ text: "think" });
  seen.text = shown(chat);
  seen.ids = chat.messages.map((message) => message.id.slice(0, 5));
  const last = chat.messages.at(-1).id;
  await chat.regenerate();
  await chat.regenerate();
  seen.regenerated = [shown(chat).length, chat.messages.at(-1).id !== last];
  await chat.sendMessage({ text: "first edit", messageId: chat.messages[0].id });
  await chat.sendMessage({ text: "edited", messageId: chat.messages[0].id });
  seen.edited = shown(chat);
  await chat.regenerate({ messageId: chat.messages[1].id });
  seen.again = shown(chat);
}
{
  const chat = new Chat({ id: "tool" });
  await chat.sendMessage({ text: "tool" });
  seen.tool = shown(chat);
}
{
  const chat = new Chat({ id: "approval", sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
  await chat.sendMessage({ text: "ask" });
  seen.approval = shown(chat);
  chat.expects = () => chat.lastMessage.parts.at(-1).type !== "text";
  await chat.addToolApprovalResponse({ id: chat.lastMessage.parts.at(-1).approval.id, approved: true });
  await settled(chat);
  seen.approved = shown(chat);
}
{
  const tools = [{ name: "weather", description: "The weather", inputSchema: { type: "object", properties: { city: { type: "string" } } } }];
  const called = [];
  const chat = new Chat({
    id: "page",
    transport: { body: { tools } },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall: ({ toolCall }) => void called.push([toolCall.toolName, toolCall.input]),
  });
  await chat.sendMessage({ text: "page" });
  chat.expects = () => chat.lastMessage.parts.at(-1).text !== "So it is.";
  await chat.addToolOutput({ tool: "weather", toolCallId: "call_page", output: { sky: "rain" } });
  await settled(chat);
  seen.page = shown(chat);
  seen.called = called;
}
{
  const chat = new Chat({ id: "failure" });
  await chat.sendMessage({ text: "fail" });
  seen.failed = [chat.status, chat.error.message];
  const stranger = new Chat({ id: "x", transport: { api: `${base}/ai-sdk/nobody` } });
  await stranger.sendMessage({ text: "hello" });
  seen.unknown = [stranger.error.statusCode, JSON.parse(stranger.error.responseBody).error.code];
}
{
  // Somebody stops the turn: the message ends as it is.
  const chat = new Chat({ id: "stopped", onFinish: ({ finishReason }) => void (seen.finish = finishReason) });
  const sent = chat.sendMessage({ text: "slow" });
  while (!JSON.stringify(shown(chat)).includes("w0")) await new Promise((resolve) => setTimeout(resolve, 5));
  await fetch(`${api}/stopped/stream`, { method: "DELETE" });
  await sent;
  seen.stopped = [chat.status, shown(chat).at(-1).at(-1)[1]];
}
{
  // The connection is lost after the first words; the chat goes on where the turn is by then.
  const lossy = async (url, init) => {
    const response = await fetch(url, init);
    if (init.method !== "POST") return response;
    const lose = new TransformStream({
      transform(chunk, controller) {
        controller.enqueue(chunk);
        if (Buffer.from(chunk).includes("w1")) setTimeout(() => controller.error(new TypeError("network error")), 20);
      },
    });
    return new Response(response.body.pipeThrough(lose), { status: response.status, headers: response.headers });
  };
  const chat = new Chat({ id: "lost", transport: { fetch: lossy } });
  await chat.sendMessage({ text: "slow" });
  seen.lost = [chat.status, shown(chat).at(-1)];
  const resumed = chat.resumeStream();
  while (chat.status !== "streaming") await new Promise((resolve) => setTimeout(resolve, 5));
  await fetch(`${base}/v1/messages`, { method: "POST", body: JSON.stringify({ content: "go" }) });
  await resumed;
  seen.resumed = [chat.status, shown(chat)];
  await chat.resumeStream();
  seen.over = [chat.status, (await fetch(`${api}/lost/stream`)).status, (await fetch(`${api}/never/stream`)).status];
}
console.log(JSON.stringify(seen));
