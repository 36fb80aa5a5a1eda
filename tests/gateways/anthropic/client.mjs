// The official client of Anthropic in JavaScript: a stream, an answer in one piece, a refusal, a tool, a lost stream. Prints JSON.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ apiKey: "any", baseURL: `${process.argv.at(-1)}/anthropic`, maxRetries: 0 });
const about = { model: "claude-test", max_tokens: 100, messages: [{ role: "user", content: "Hello!" }] };
const seen = {};

const message = await client.messages.stream(about).finalMessage();
seen.streamed = message.content.map((block) => block.text).join("");
seen.whole = (await client.messages.create(about)).content[0].text;
try {
  await client.messages.create(about);
} catch (error) {
  seen.failed = [error.constructor.name, error.status];
}
const tools = [{ name: "weather", input_schema: { type: "object" } }];
const called = await client.messages.stream({ ...about, tools }).finalMessage();
seen.called = [called.stop_reason, called.content.at(-1).name, called.content.at(-1).input];
// The client leaves after the first words, then asks again: nothing of the first answer is kept.
const left = client.messages.stream(about);
await new Promise((resolve) => left.once("text", resolve));
left.abort();
await left.done().catch((error) => (seen.left = error.constructor.name));
seen.again = (await client.messages.create(about)).content[0].text;
console.log(JSON.stringify(seen));
