import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { MessageAnswer } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { withQuery } from "../../state/data.ts";
import "../../style/builder.css";
import { AgentInput } from "../../ui/agent_input.tsx";
import { Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, JsonTree, Section } from "../../ui/parts.tsx";
import { isSchema, schemaOf, SchemaField } from "../../ui/schema_field.tsx";
import { builderWords } from "../../words/builder/index.ts";
import { duration, money } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { Citations } from "../citations.tsx";

/** An answer, how long it took, and whether its conversation stays. */
interface Answered {
  answer: MessageAnswer;
  ms: number;
  isKept: boolean;
}

/** One call of an agent without a conversation: a message in, the answer out, as JSON if a schema is given. */
export default function RunOnce({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const t = builderWords.value;
  const agent = query["agent"] ?? "";
  const [content, setContent] = useState("");
  const [schema, setSchema] = useState("");
  const [isKept, setKept] = useState(false);
  const [answered, setAnswered] = useState<Answered | undefined>(undefined);
  async function run(): Promise<void> {
    setAnswered(undefined);
    const output = schema.trim() === "" ? undefined : { name: "answer", schema: schemaOf(schema) };
    const started = performance.now();
    const answer = await request<MessageAnswer>("POST", withQuery("/v1/run", { tenant }), { agent: agent.trim() || undefined, content, output, keep: isKept });
    setAnswered({ answer, ms: performance.now() - started, isKept });
  }
  return (
    <Page title={words.value.pages.runOnce}>
      <p class="hint">{t.runAbout}</p>
      <Form submit={t.run} disabled={content.trim() === "" || !isSchema(schema)} onSubmit={run}>
        <Field label={words.value.pages.agent} hint={t.runAgentHint}>
          {(control) => <AgentInput control={control} tenant={tenant} value={agent} onInput={(value) => go(withQuery("/agents/run", { tenant, agent: value || undefined }), true)} />}
        </Field>
        <Field label={t.runMessage}>
          {(control) => <textarea {...control} rows={4} dir="auto" value={content} onInput={(event) => setContent(event.currentTarget.value)} />}
        </Field>
        <details class="more-fields">
          <summary>{t.answerSchema}</summary>
          <SchemaField text={schema} onInput={setSchema} />
        </details>
        <label class="check"><input type="checkbox" checked={isKept} onChange={(event) => setKept(event.currentTarget.checked)} /> {t.runKeep}</label>
      </Form>
      <div aria-live="polite">{answered !== undefined && <Answer of={answered} />}</div>
    </Page>
  );
}

function Answer({ of: { answer, ms, isKept } }: { of: Answered }): JSX.Element {
  const t = builderWords.value;
  const count = (value: number | undefined) => (value ?? 0).toLocaleString(language.value);
  const waits = answer.waits ?? [];
  return (
    <Section title={t.runAnswer}>
      {answer.error !== undefined && <p class="problem" role="alert" dir="auto">{answer.error.message} <code>{answer.error.code}</code></p>}
      {answer.output === undefined ? <pre class="paper" dir="auto">{answer.text}</pre> : <JsonTree name="JSON" value={answer.output} isOpen />}
      {(answer.citations ?? []).length > 0 && <Citations citations={answer.citations!} />}
      <Figures of={[[t.took, duration(Math.round(ms))], [t.tokensIn, count(answer.usage?.inputTokens)], [t.tokensOut, count(answer.usage?.outputTokens)], [t.spent, money(answer.price ?? 0)]]} />
      {waits.length > 0 && <p>{t.runWaits}</p>}
      {(isKept || waits.length > 0) && <p><a href={`/c/${encodeURIComponent(answer.sessionId)}`}>{t.openChat}</a></p>}
    </Section>
  );
}
