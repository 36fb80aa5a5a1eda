import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { type Content, valueOf, variablesOf } from "../../state/builder.ts";
import { apiError, withQuery } from "../../state/data.ts";
import { Field, Form } from "../../ui/form.tsx";
import { builderWords } from "../../words/builder/index.ts";

/** The resource as its users get it, with arguments for its variables. */
export function Rendering({ of, tenant }: { of: Content; tenant: string | undefined }): JSX.Element {
  const t = builderWords.value;
  const text = JSON.stringify(of.content);
  const [values, setValues] = useState<Record<string, string>>({});
  const [wanted, setWanted] = useState<string[]>(of.resource.type === "prompts" ? variablesOf(text) : []);
  const [rendered, setRendered] = useState<unknown>(undefined);
  async function render(): Promise<void> {
    const args = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "").map(([name, value]) => [name, valueOf(value)]));
    try {
      const reply = await request<{ rendered: unknown }>("POST", withQuery("/v1/resources/resolve", { tenant }), { uri: `${of.uri}@${of.version.version}`, args });
      setRendered(reply.rendered);
    } catch (thrown) {
      const names = apiError(thrown).details["unresolved"];
      if (Array.isArray(names)) setWanted([...new Set([...wanted, ...names.map(String)])]);
      setRendered(undefined);
      throw thrown;
    }
  }
  return (
    <>
      <Form submit={t.render} onSubmit={render}>
        {wanted.length > 0 && <p class="hint">{t.argumentsHint}</p>}
        <div class="pair">
          {wanted.map((name) => (
            <Field key={name} label={name}>
              {(control) => <input {...control} type="text" dir="auto" autocomplete="off" value={values[name] ?? ""} onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })} />}
            </Field>
          ))}
        </div>
      </Form>
      {rendered !== undefined && <pre class="paper" dir="auto">{typeof rendered === "string" ? rendered : JSON.stringify(rendered, null, 2)}</pre>}
    </>
  );
}
