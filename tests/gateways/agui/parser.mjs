// Reads streams, one base64 per line of a file, as the official client does. Prints those that it does not accept.
import { readFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
const refused = [];
const streams = readFileSync(process.argv.at(-1), "utf8").split("\n").filter(Boolean);
for (const [index, line] of streams.entries()) {
  const fetch = async () => new Response(Buffer.from(line, "base64"), { headers: { "content-type": "text/event-stream" } });
  const agent = new HttpAgent({ url: "http://localhost/", threadId: "t", fetch });
  let ends = 0;
  const count = () => void (ends += 1);
  try {
    await agent.runAgent({ runId: "r" }, { onRunFinishedEvent: count, onRunErrorEvent: count });
    if (ends !== 1) refused.push([index, `${ends} ends`]);
  } catch (error) {
    refused.push([index, String(error)]);
  }
  if (warnings.length) refused.push([index, ...warnings.splice(0)]);
}
console.log(JSON.stringify({ count: streams.length, refused }));
