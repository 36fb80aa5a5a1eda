// The official client of AG-UI: one turn of each kind. Prints what it saw as JSON.
import { HttpAgent } from "@ag-ui/client";

const base = process.argv.at(-1);
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
const seen = { warnings };

const agentOf = (threadId, more = {}) => new HttpAgent({ url: `${base}/ag-ui/default`, threadId, ...more });
async function run(agent, parameters = {}) {
  const kinds = [];
  let failure = null;
  await agent
    .runAgent(parameters, {
      onEvent: ({ event }) => void kinds.push(event.type),
      onRunErrorEvent: ({ event }) => void (failure = { code: event.code, message: event.message }),
    })
    .catch((error) => (failure = failure ?? { status: error.status, payload: error.payload }));
  return { kinds, failure };
}
const say = (agent, id, content) => agent.addMessage({ id, role: "user", content });
const shown = (agent) => agent.messages.map(({ role, content, toolCalls }) => [role, content ?? "", ...(toolCalls ?? []).map((call) => call.function.arguments)]);

{
  const agent = agentOf("text");
  say(agent, "m1", "hello there");
  seen.text = await run(agent);
  say(agent, "m2", "think");
  seen.thought = await run(agent);
  seen.conversation = shown(agent);
}
{
  const agent = agentOf("tool");
  say(agent, "m1", "tool");
  seen.tool = await run(agent);
  seen.toolMessages = shown(agent);
}
{
  const agent = agentOf("approval");
  say(agent, "m1", "ask");
  seen.approval = await run(agent);
  const [interrupt] = agent.pendingInterrupts;
  seen.interrupt = { reason: interrupt.reason, toolCallId: interrupt.toolCallId, required: interrupt.responseSchema.required };
  seen.uncovered = await run(agent);
  seen.approved = await run(agent, { resume: [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }] });
  seen.approvedMessages = shown(agent);
}
{
  const agent = agentOf("page");
  const tools = [{ name: "weather", description: "The weather", parameters: { type: "object", properties: { city: { type: "string" } } } }];
  say(agent, "m1", "page");
  seen.page = await run(agent, { tools });
  agent.addMessage({ id: "m2", role: "tool", toolCallId: "call_page", content: "rain" });
  seen.answered = await run(agent, { tools });
  seen.pageMessages = shown(agent);
}
{
  const agent = agentOf("failure");
  say(agent, "m1", "fail");
  seen.failed = await run(agent);
  const stranger = new HttpAgent({ url: `${base}/ag-ui/nobody`, threadId: "x" });
  say(stranger, "m1", "hello");
  seen.unknown = await run(stranger);
}
{
  // Somebody stops the run: the client is told that it was cancelled.
  const agent = agentOf("stopped");
  say(agent, "m1", "slow");
  let outcome;
  const stop = () => void fetch(`${base}/ag-ui/default?threadId=stopped`, { method: "DELETE" });
  await agent.runAgent({}, { onTextMessageStartEvent: stop, onRunFinishedEvent: ({ event }) => void (outcome = event.outcome) });
  seen.stopped = [outcome, agent.messages.at(-1).content];
}
{
  // The connection is lost after the first words; the same run again is the same turn.
  const agent = agentOf("lost");
  say(agent, "m1", "slow");
  await agent
    .runAgent({ runId: "run-1" }, { onTextMessageContentEvent: () => agent.abortRun() })
    .catch((error) => (seen.lost = error.name));
  await fetch(`${base}/v1/messages`, { method: "POST", body: JSON.stringify({ content: "go" }) });
  const again = agentOf("lost");
  say(again, "m1", "slow");
  seen.resumed = await run(again, { runId: "run-1" });
  seen.resumedMessages = shown(again);
}
console.log(JSON.stringify(seen));
