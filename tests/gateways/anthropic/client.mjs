// The official client of Anthropic in JavaScript: a stream, an answer in one piece, a refusal. Prints JSON.
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
console.log(JSON.stringify(seen));
