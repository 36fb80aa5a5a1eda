// The official client of A2A: text, tool, failure, wait and answer, a lost stream, a cancel, a wrong task.
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";

const client = await new ClientFactory().createFromUrl(process.argv.at(-1), ".well-known/agent-card.json");
const request = (text, about = {}) => ({
  tenant: "",
  message: {
    messageId: crypto.randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER, metadata: undefined, extensions: [],
    referenceTaskIds: [], parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
    ...about,
  },
  configuration: undefined,
  metadata: undefined,
});
const name = (state) => TaskState[state] ?? String(state);

async function run(text, about) {
  const seen = { states: [], text: "", id: "" };
  for await (const { payload } of client.sendMessageStream(request(text, about))) {
    if (payload.$case === "task") seen.id = payload.value.id;
    if (payload.$case === "statusUpdate") seen.states.push(name(payload.value.status.state));
    if (payload.$case === "artifactUpdate")
      seen.text += payload.value.artifact.parts.map((part) => part.content.value).join("");
  }
  return seen;
}

const out = {};
const plain = ({ states, text }) => ({ states, text });
out.text = plain(await run("hello there"));
out.tool = plain(await run("tool"));
out.failed = plain(await run("fail"));
const asked = await run("ask", { contextId: "js" });
out.asked = plain(asked);
out.approved = plain(await run("approve", { contextId: "js", taskId: asked.id }));
let slow = "";
for await (const { payload } of client.sendMessageStream(request("slow"))) {
  if (payload.$case === "task") slow = payload.value.id;
  if (payload.$case === "artifactUpdate") break;
}
for await (const { payload } of client.resubscribeTask({ tenant: "", id: slow })) {
  if (payload.$case === "task") out.resumed = payload.value.id === slow ? "same task" : "another";
  if (payload.$case === "artifactUpdate") break;
}
out.cancelled = name((await client.cancelTask({ tenant: "", id: slow, metadata: undefined })).status.state);
try {
  await client.getTask({ tenant: "", id: "turn_nope" });
} catch (error) {
  out.unknown = error.constructor.name;
}
console.log(JSON.stringify(out));
process.exit(0);
