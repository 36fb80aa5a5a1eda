// Translates the standard input with the agent `translator`, each paragraph in a session of its own:
//
//   node examples/translator.mjs German < letter.txt
//   node examples/translator.mjs --zh 简体中文 < letter.txt      the same agent with a Chinese prompt
//
// AVM_WS names another server, AVM_KEY an API key where one is needed. Needs Node 22 or newer and `make console`, which builds the client.
import { createAgentX, remoteRuntime } from "../clients/typescript/dist/index.js";

const [language = "English", ...rest] = process.argv.slice(2).filter((word) => word !== "--zh");
const agent = process.argv.includes("--zh") ? "translator-zh" : "translator";
if (rest.length > 0) fail(`One language, please, not ${[language, ...rest].join(" ")}`);

function fail(text) {
  console.error(text);
  process.exit(1);
}

async function readInput() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

const agentx = createAgentX(remoteRuntime({ url: process.env.AVM_WS ?? "ws://localhost:8080/ws", key: process.env.AVM_KEY }));
try {
  const name = `${agent} ${language}`;
  const built = (await agentx.images.list("translations")).find((image) => image.name === name);
  const image = built ?? (await agentx.images.build(agent, { name, variables: { targetLanguage: language } }, "translations"));
  for (const paragraph of (await readInput()).split(/\n{2,}/).filter((text) => text.trim() !== "")) {
    const session = await agentx.runtime.sessions.create(image.imageId);
    for await (const event of (await session.resume()).stream(paragraph.trim())) {
      if (event.type === "text_delta") process.stdout.write(event.data.text);
      if (event.type === "error_message") fail(`${event.data.content} (${event.data.errorCode})`);
    }
    process.stdout.write("\n\n");
  }
} catch (error) {
  fail(error.code ? `${error.message} (${error.code})` : error.message);
} finally {
  agentx.dispose();
}
