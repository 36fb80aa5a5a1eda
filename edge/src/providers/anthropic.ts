/** Anthropic — the Messages API, streamed. */

import type { Usage } from "../../../clients/typescript/src/types.ts";
import type { Output, StopReason } from "../turn.ts";
import { type Entry, type Prompt, type Stream } from "./prompt.ts";
import { type Call, cutOff, decode, events, reported, tokens } from "./sse.ts";

type Block = Record<string, unknown>;

const VERSION = "2023-06-01";
const STOPS: Record<string, StopReason> = {
  end_turn: "end_turn",
  max_tokens: "max_tokens",
  stop_sequence: "stop_sequence",
  tool_use: "tool_use",
  pause_turn: "pause_turn",
  refusal: "refusal",
};

export function anthropic(baseUrl: string, key: string, prompt: Prompt, call: Pick<Call, "signal" | "silenceMs">): Stream {
  const headers = { "x-api-key": key, "anthropic-version": VERSION };
  return read(events({ ...call, url: `${baseUrl}/v1/messages`, headers, body: bodyOf(prompt) }));
}

function bodyOf(prompt: Prompt): Record<string, unknown> {
  const tools = [...prompt.tools.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema })), ...prompt.providerTools];
  return {
    model: prompt.model,
    max_tokens: prompt.maxTokens + (prompt.thinking ?? 0),
    messages: prompt.entries.map(messageOf),
    stream: true,
    ...(prompt.system ? { system: prompt.system } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    ...(prompt.thinking ? { thinking: { type: "enabled", budget_tokens: prompt.thinking } } : {}),
    ...(prompt.temperature !== undefined && !prompt.thinking ? { temperature: Math.min(prompt.temperature, 1) } : {}),
  };
}

function messageOf(entry: Entry): { role: string; content: Block[] } {
  if (entry.role === "results") {
    const content = entry.results.map(({ id, text, isError }) => ({ type: "tool_result", tool_use_id: id, content: text, is_error: isError }));
    return { role: "user", content };
  }
  if (entry.role === "assistant") {
    const thinking = entry.thinking.filter((part) => part.signature).map(({ reasoning, signature }) => ({ type: "thinking", thinking: reasoning, signature }));
    const text = entry.text.trim() === "" ? [] : [{ type: "text", text: entry.text }];
    return { role: "assistant", content: [...thinking, ...text, ...entry.calls.map((call) => ({ type: "tool_use", ...call }))] };
  }
  if (typeof entry.content === "string") return { role: "user", content: [{ type: "text", text: entry.content }] };
  const content = entry.content.map((part): Block => {
    if (part.type === "text") return { type: "text", text: part.text };
    const isUrl = /^https?:/.test(part.data);
    const source = isUrl ? { type: "url", url: part.data } : { type: "base64", media_type: part.mediaType, data: part.data };
    return { type: part.type === "image" ? "image" : "document", source };
  });
  return { role: "user", content };
}

function usageOf(usage: Record<string, unknown>): Usage {
  const count = (name: string): number => tokens(usage[name]);
  const read = count("cache_read_input_tokens");
  const written = count("cache_creation_input_tokens");
  return {
    inputTokens: count("input_tokens"),
    outputTokens: count("output_tokens"),
    ...(read > 0 ? { cacheReadTokens: read } : {}),
    ...(written > 0 ? { cacheWriteTokens: written } : {}),
  };
}

async function* read(data: AsyncIterable<string>): AsyncGenerator<Output> {
  const kinds = new Map<number, string>();
  let signature = "";
  let begun: Record<string, unknown> = {};
  let reason: StopReason | undefined;
  for await (const text of data) {
    const event = decode(text);
    switch (event.type) {
      case "message_start":
        begun = event.message?.usage ?? {};
        yield { kind: "message_started", model: String(event.message?.model ?? ""), usage: { ...usageOf(begun), outputTokens: 0 } };
        break;
      case "content_block_start":
        kinds.set(event.index, event.content_block.type);
        yield* startOf(event.content_block);
        break;
      case "content_block_delta":
        if (event.delta.type === "text_delta") yield { kind: "text", text: event.delta.text };
        else if (event.delta.type === "thinking_delta") yield { kind: "thinking", text: event.delta.thinking };
        else if (event.delta.type === "signature_delta") signature += event.delta.signature;
        else if (event.delta.type === "input_json_delta") yield { kind: "call_input", text: event.delta.partial_json };
        break;
      case "content_block_stop": {
        const kind = kinds.get(event.index);
        if (kind === "text") yield { kind: "text_stopped" };
        else if (kind === "thinking") yield { kind: "thinking_stopped", signature };
        else if (kind === "tool_use" || kind === "server_tool_use") yield { kind: "call_stopped" };
        signature = "";
        break;
      }
      case "message_delta":
        reason = STOPS[event.delta?.stop_reason] ?? "end_turn";
        yield { kind: "usage", usage: usageOf({ ...begun, output_tokens: 0, ...event.usage }) };
        break;
      case "message_stop":
        yield { kind: "stopped", reason: reason ?? "end_turn" };
        return;
      case "error":
        throw reported(event.error?.type, event.error?.message);
    }
  }
  throw cutOff();
}

function* startOf(block: Record<string, any>): Generator<Output> {
  if (block.type === "text") yield { kind: "text_started" };
  else if (block.type === "thinking") yield { kind: "thinking_started" };
  else if (block.type === "tool_use") yield { kind: "call_started", callId: block.id, name: block.name };
  else if (block.type === "server_tool_use") yield { kind: "call_started", callId: block.id, name: block.name, byProvider: true };
  else if (typeof block.tool_use_id === "string") {
    const isError = typeof block.content === "object" && block.content !== null && "error_code" in block.content;
    yield { kind: "provider_result", callId: block.tool_use_id, value: block.content, isError };
  }
}
