/** OpenAI — chat completions, streamed; also of the many servers that speak the same protocol. */

import type { Output, StopReason } from "../turn.ts";
import { type Entry, type Prompt, type Stream } from "./prompt.ts";
import { type Call, cutOff, decode, events, reported, tokens } from "./sse.ts";

type Json = Record<string, unknown>;

const STOPS: Record<string, StopReason> = { stop: "end_turn", length: "max_tokens", tool_calls: "tool_use", function_call: "tool_use", content_filter: "refusal" };

export function openai(baseUrl: string, key: string, prompt: Prompt, call: Pick<Call, "signal" | "silenceMs">): Stream {
  const headers: Record<string, string> = key === "" ? {} : { authorization: `Bearer ${key}` };
  return read(events({ ...call, url: `${baseUrl}/chat/completions`, headers, body: bodyOf(prompt) }));
}

function bodyOf(prompt: Prompt): Json {
  const tools = prompt.tools.map(({ name, description, inputSchema }) => ({ type: "function", function: { name, description, parameters: inputSchema } }));
  return {
    model: prompt.model,
    max_tokens: prompt.maxTokens,
    messages: [...(prompt.system ? [{ role: "system", content: prompt.system }] : []), ...prompt.entries.flatMap(messagesOf)],
    stream: true,
    stream_options: { include_usage: true },
    ...(tools.length > 0 ? { tools } : {}),
    ...(prompt.temperature === undefined ? {} : { temperature: prompt.temperature }),
  };
}

function messagesOf(entry: Entry): Json[] {
  if (entry.role === "results") return entry.results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text }));
  if (entry.role === "assistant") {
    const calls = entry.calls.map(({ id, name, input }) => ({ id, type: "function", function: { name, arguments: JSON.stringify(input) } }));
    return [{ role: "assistant", content: entry.text || null, ...(calls.length > 0 ? { tool_calls: calls } : {}) }];
  }
  if (typeof entry.content === "string") return [{ role: "user", content: entry.content }];
  const content = entry.content.map((part): Json => {
    if (part.type === "text") return { type: "text", text: part.text };
    const url = /^https?:/.test(part.data) ? part.data : `data:${part.mediaType};base64,${part.data}`;
    if (part.type === "image") return { type: "image_url", image_url: { url } };
    return { type: "file", file: { filename: part.filename ?? "file", file_data: url } };
  });
  return [{ role: "user", content }];
}

class Reader {
  #started = false;
  #isText = false;
  #call: number | undefined;
  stop: StopReason | undefined;

  *read(event: Record<string, any>): Generator<Output> {
    if (!this.#started) {
      this.#started = true;
      yield { kind: "message_started", model: String(event.model ?? "") };
    }
    const choice = event.choices?.[0];
    if (choice !== undefined) yield* this.#delta(choice.delta ?? {});
    if (typeof choice?.finish_reason === "string") {
      this.stop = STOPS[choice.finish_reason] ?? "end_turn";
      yield* this.#close();
    }
    if (event.usage) {
      const cached = tokens(event.usage.prompt_tokens_details?.cached_tokens);
      const usage = { inputTokens: Math.max(0, tokens(event.usage.prompt_tokens) - cached), outputTokens: tokens(event.usage.completion_tokens) };
      yield { kind: "usage", usage: { ...usage, ...(cached > 0 ? { cacheReadTokens: cached } : {}) } };
    }
  }

  *#delta(delta: Record<string, any>): Generator<Output> {
    if (typeof delta.content === "string" && delta.content !== "") {
      if (!this.#isText) {
        yield* this.#close();
        this.#isText = true;
        yield { kind: "text_started" };
      }
      yield { kind: "text", text: delta.content };
    }
    for (const call of delta.tool_calls ?? []) {
      const index = Number(call.index ?? 0);
      if (index !== this.#call) {
        yield* this.#close();
        this.#call = index;
        yield { kind: "call_started", callId: String(call.id ?? `call_${index}`), name: String(call.function?.name ?? "") };
      }
      if (call.function?.arguments) yield { kind: "call_input", text: String(call.function.arguments) };
    }
  }

  *#close(): Generator<Output> {
    if (this.#isText) yield { kind: "text_stopped" };
    if (this.#call !== undefined) yield { kind: "call_stopped" };
    this.#isText = false;
    this.#call = undefined;
  }
}

async function* read(data: AsyncIterable<string>): AsyncGenerator<Output> {
  const reader = new Reader();
  for await (const text of data) {
    if (text === "[DONE]") break;
    const event = decode(text);
    if (event.error) throw reported(event.error.type, event.error.message);
    yield* reader.read(event);
  }
  if (reader.stop === undefined) throw cutOff();
  yield { kind: "stopped", reason: reader.stop };
}
