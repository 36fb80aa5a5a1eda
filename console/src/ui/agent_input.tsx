import type { JSX } from "preact";
import { may } from "../routes.ts";
import { useList, withQuery } from "../state/data.ts";
import type { Control } from "./form.tsx";

/** Names an agent: one of those that can be begun with is offered, any other can be written. */
export function AgentInput({ control, tenant, value, onInput }: { control: Control; tenant?: string; value: string; onInput: (value: string) => void }): JSX.Element {
  const found = useList<{ name: string }>(may("images:read") ? withQuery("/v1/definitions", { tenant, limit: 100 }) : undefined);
  const names = [...new Set((found.data ?? []).map(({ name }) => name))];
  return (
    <>
      <input {...control} type="text" dir="auto" list={`${control.id}-agents`} autocomplete="off" spellcheck={false} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
      <datalist id={`${control.id}-agents`}>{names.map((name) => <option key={name} value={name} />)}</datalist>
    </>
  );
}
