// Reads streams as the official client does: a JSON list of [stream, stream that goes on with its message or null].
import { readFileSync } from "node:fs";
import { DefaultChatTransport, readUIMessageStream } from "ai";

const refused = [];
const pairs = JSON.parse(readFileSync(process.argv.at(-1), "utf8"));
async function read(text, message) {
  const fetch = async () => new Response(text, { headers: { "content-type": "text/event-stream" } });
  const stream = await new DefaultChatTransport({ api: "http://localhost/", fetch }).sendMessages({ messages: [] });
  let last = message;
  for await (const next of readUIMessageStream({ message, stream, terminateOnError: true })) last = next;
  return last;
}
for (const [index, [text, next]] of pairs.entries()) {
  try {
    const message = await read(text, undefined);
    if (next !== null) await read(next, message);
  } catch (error) {
    if (error.message.startsWith("The turn failed")) continue;
    refused.push([index, String(error)]);
  }
}
console.log(JSON.stringify({ count: pairs.length, refused }));
