import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ToolInvocation as Invocation } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { Content } from "../../state/builder.ts";
import { withQuery } from "../../state/data.ts";
import { CodeField } from "../../ui/code_field.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import { Table } from "../../ui/table.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { duration } from "../../words/format.ts";
import { reasonsOf } from "../../words/rule.ts";

/** Calls a tool once, and tells which rule let it, where it ran, and why there. */
export function TryTool({ of, tenant }: { of: Content; tenant: string | undefined }): JSX.Element {
  const t = builderWords.value;
  const [input, setInput] = useState(() => JSON.stringify(exampleOf(of.content), null, 2));
  const [tool, setTool] = useState("");
  const [approve, setApprove] = useState(false);
  const [result, setResult] = useState<Invocation | undefined>(undefined);
  async function call(): Promise<void> {
    setResult(undefined);
    const path = withQuery(`/v1/resources/${encodeURIComponent(of.id)}/invoke`, { tenant });
    setResult(await request<Invocation>("POST", path, { version: of.version.version, tool: tool || undefined, input: JSON.parse(input), approve }));
  }
  const names = toolsOf(of.content);
  return (
    <>
      <Form submit={t.call} onSubmit={call}>
        {names.length > 0 && (
          <Field label={t.tool}>
            {(control) => (
              <select {...control} value={tool} onChange={(event) => setTool(event.currentTarget.value)}>
                <option value="">—</option>
                {names.map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            )}
          </Field>
        )}
        <Field label={t.input}>{(control) => <CodeField control={control} value={input} onInput={setInput} />}</Field>
        <label class="check"><input type="checkbox" checked={approve} onChange={(event) => setApprove(event.currentTarget.checked)} /> {t.approve}</label>
      </Form>
      {result !== undefined && (
        <Section title={t.output}>
          <Figures of={[[t.took, duration(result.durationMs)], [t.decidedBy, reasonsOf(result.policy)], ...(result.tier === undefined ? [] : [[t.ranIn, result.tier] as const])]} />
          <pre class="paper" dir="auto">{typeof result.output === "string" ? result.output : JSON.stringify(result.output, null, 2)}</pre>
          {(result.why ?? []).length > 0 && (
            <Table
              label={t.why}
              rows={result.why!}
              keyOf={(verdict) => verdict.join()}
              columns={[{ head: t.tier, cell: ([tier]) => tier }, { head: t.verdict, cell: ([, ...rest]) => rest.join(" ") }]}
            />
          )}
        </Section>
      )}
    </>
  );
}

/** An input with every field that the schema names. */
function exampleOf(content: unknown): Record<string, unknown> {
  const { inputSchema } = content as { inputSchema?: { properties?: Record<string, { type?: string; default?: unknown }> } };
  const empty: Record<string, unknown> = { string: "", number: 0, integer: 0, boolean: false, array: [], object: {} };
  return Object.fromEntries(Object.entries(inputSchema?.properties ?? {}).map(([name, { type, default: preset }]) => [name, preset ?? empty[type ?? "string"] ?? null]));
}

function toolsOf(content: unknown): string[] {
  const { frozen } = content as { frozen?: Record<string, unknown> };
  return Object.keys(frozen ?? {});
}
