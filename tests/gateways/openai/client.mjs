// The official client of OpenAI in JavaScript: one turn of each kind, by chat completions and by responses. Prints JSON.
import OpenAI from "openai";

const base = process.argv.at(-1);
const client = new OpenAI({ apiKey: "any", baseURL: `${base}/v1`, maxRetries: 0 });
const ask = (content, more = {}) => client.chat.completions.create({ model: "default", messages: [{ role: "user", content }], ...more });
const outcome = async (turnId) => {
  for (;;) {
    const turn = await (await fetch(`${base}/v1/turns/${turnId}`)).json();
    if (turn.outcome) return turn.outcome;
  }
};
const go = () => ask("go");
const seen = {};

seen.models = (await client.models.list()).data.map((model) => model.id);
seen.text = (await ask("hello there")).choices[0].message.content;
seen.chunks = [];
for await (const chunk of await ask("hello there", { stream: true })) seen.chunks.push(chunk.choices[0]?.delta.content ?? "");
seen.tool = (await ask("tool")).choices[0].message.content;
{
  const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];
  const messages = [{ role: "user", content: "page" }];
  const first = (await client.chat.completions.create({ model: "default", messages, tools })).choices[0];
  const [call] = first.message.tool_calls;
  messages.push(first.message, { role: "tool", tool_call_id: call.id, content: "rain" });
  const second = (await client.chat.completions.create({ model: "default", messages, tools })).choices[0];
  seen.page = [first.finish_reason, call.function.arguments, second.message.content];
}
{
  const failure = async (work) => {
    try {
      for await (const _ of await work()) void _;
    } catch (error) {
      return [error.constructor.name, error.status ?? null, error.code];
    }
  };
  seen.failed = await failure(() => ask("fail", { stream: true }));
  seen.unknown = await failure(() => client.chat.completions.create({ model: "nobody", messages: [{ role: "user", content: "x" }] }));
}
{
  // Whoever leaves without a key stops the turn.
  const stream = await ask("slow", { stream: true });
  for await (const chunk of stream) {
    seen.left = chunk.id.replace("chatcmpl-", "");
    if (chunk.choices[0].delta.content) break;
  }
  stream.controller.abort();
  seen.left = await outcome(seen.left);
}
{
  // The connection is lost after the first words; the same request under the same key is told the whole answer.
  const options = { headers: { "Idempotency-Key": "slow-1" } };
  const repeated = { model: "default", messages: [{ role: "user", content: "slow" }], stream: true };
  const ids = new Set();
  const lost = await client.chat.completions.create(repeated, options);
  for await (const chunk of lost) if (ids.add(chunk.id) && chunk.choices[0].delta.content) break;
  lost.controller.abort();
  await go();
  seen.repeated = "";
  for await (const chunk of await client.chat.completions.create(repeated, options)) {
    ids.add(chunk.id);
    seen.repeated += chunk.choices[0]?.delta.content ?? "";
  }
  seen.repeatedTurns = ids.size;
}
{
  const failed = await client.responses.create({ model: "default", input: "fail" });
  seen.failedResponse = [failed.status, failed.error.code];
  const stream = client.responses.stream({ model: "default", input: "fail" });
  seen.failedStream = await stream.finalResponse().then((response) => response.status, (error) => error.constructor.name);
  const running = await client.responses.create({ model: "default", input: "stop", background: true });
  const cancelled = await client.responses.cancel(running.id);
  seen.cancelled = [cancelled.id === running.id, cancelled.status, await outcome(running.id.replace("resp_", ""))];
}
{
  const stream = client.responses.stream({ model: "default", input: "tool" });
  const kinds = new Set();
  for await (const event of stream) kinds.add(event.type);
  const response = await stream.finalResponse();
  seen.response = [response.status, response.output_text, response.output.map((item) => item.type), kinds.has("response.mcp_call.completed")];
  const next = await client.responses.create({ model: "default", input: "hello", previous_response_id: response.id });
  seen.next = [next.output_text, next.conversation.id === response.conversation.id];
}
{
  // The connection is lost after the first words; the response goes on from the last event.
  const lost = await client.responses.create({ model: "default", input: "slow", stream: true, background: true });
  let id, number;
  for await (const event of lost) {
    id = event.response?.id ?? id;
    number = event.sequence_number;
    if (event.type === "response.output_text.delta") break;
  }
  await go();
  let text = "";
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: number })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.type === "response.completed") seen.resumed = [text, event.response.output_text ?? event.response.output[0].content[0].text];
  }
}
console.log(JSON.stringify(seen));
