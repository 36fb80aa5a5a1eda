// The provider of the AI SDK for OpenAI: it names items of earlier responses by their ids. Prints JSON.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";

const base = process.argv.at(-1);
const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey: "any" });
const inputSchema = jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"] });
const tools = { weather: tool({ description: "The weather", inputSchema, execute: ({ city }) => `rain in ${city}` }) };

async function seenBy(model) {
  const seen = {};
  const chat = async (...words) => {
    const messages = [];
    const answers = [];
    for (const content of words) {
      messages.push({ role: "user", content });
      const { response, text } = await generateText({ model, messages });
      messages.push(...response.messages);
      answers.push(text);
    }
    return answers;
  };
  seen.text = await chat("one", "two", "three");
  seen.own = await chat("tool", "and now");
  seen.think = await chat("think", "and now");
  const called = await generateText({ model, prompt: "page", tools, stopWhen: isStepCount(3) });
  seen.tool = [called.text, called.steps.length];
  const abort = new AbortController();
  seen.left = "";
  for await (const part of streamText({ model, prompt: "stop", abortSignal: abort.signal }).textStream) {
    seen.left += part;
    abort.abort();
  }
  for await (const part of streamText({ model, prompt: "fail", maxRetries: 0, onError: () => {} }).fullStream) {
    if (part.type === "error") seen.failed = part.error.message;
  }
  const headers = { "Idempotency-Key": `slow-${model.provider}` };
  const lost = new AbortController();
  for await (const _ of streamText({ model, prompt: "slow", headers, abortSignal: lost.signal }).textStream) lost.abort();
  const again = generateText({ model, prompt: "slow", headers });
  await generateText({ model, prompt: "go" });
  seen.again = (await again).text;
  return seen;
}
console.log(JSON.stringify({ responses: await seenBy(openai("default")), chat: await seenBy(openai.chat("default")) }));
