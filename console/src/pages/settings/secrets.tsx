import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { SecretView as SecretRow } from "../../link/client.ts";
import { request } from "../../link/http.ts";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/activity.css";
import { Button } from "../../ui/button.tsx";
import { Confirm, Field, Form } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import { More, Shown } from "../../ui/shown.tsx";
import { Table } from "../../ui/table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { toast } from "../../ui/toast.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { language, words } from "../../words/index.ts";
import { stamp } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";

/** The names of secrets. A value is written, and never read. */
export default function Secrets({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const text = settingsWords.value;
  const secrets = useList<SecretRow>(withQuery("/v1/secrets", { tenant, limit: 100 }));
  const [going, setGoing] = useState<string | undefined>(undefined);
  const pathOf = (name: string) => withQuery(`/v1/secrets/${encodeURIComponent(name)}`, { tenant });
  return (
    <Page title={words.value.pages.secrets} tools={<TenantChoice whole={activityWords.value.ofTenant} go={go} />}>
      <p class="hint">{text.secretsHint}</p>
      <Shown of={secrets}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="empty">{text.secretsNothing}</p>
          ) : (
            <Table
              label={words.value.pages.secrets}
              rows={rows}
              keyOf={({ name }) => name}
              columns={[
                { head: text.name, cell: ({ name }) => <code dir="auto">{name}</code> },
                { head: text.updated, cell: ({ updatedAt }) => <time>{stamp(updatedAt, language.value)}</time> },
                { head: text.delete, cell: ({ name }) => <Button onClick={() => setGoing(name)}>{text.delete}</Button> },
              ]}
            />
          )
        }
      </Shown>
      <More more={secrets.more} />
      <SecretForm
        onSave={async (name, value) => {
          await request("PUT", pathOf(name), { value });
          toast(text.saved);
          await secrets.reload();
        }}
      />
      {going !== undefined && (
        <Confirm
          title={text.deleteSecret(going)}
          submit={text.delete}
          typed={going}
          onConfirm={async () => {
            await request("DELETE", pathOf(going));
            await secrets.reload();
          }}
          onClose={() => setGoing(undefined)}
        >
          <p>{text.deleteSecretWhat}</p>
        </Confirm>
      )}
    </Page>
  );
}

function SecretForm({ onSave }: { onSave: (name: string, value: string) => Promise<void> }): JSX.Element {
  const text = settingsWords.value;
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  return (
    <Section title={text.secretSet}>
      <Form
        submit={text.save}
        disabled={name.trim() === "" || value === ""}
        onSubmit={async () => {
          await onSave(name.trim(), value);
          setName("");
          setValue("");
        }}
      >
        <Field label={text.name} hint={text.nameHint}>
          {(control) => <input {...control} type="text" autocomplete="off" spellcheck={false} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        <Field label={text.value} hint={text.secretHidden}>
          {(control) => <input {...control} type="password" autocomplete="new-password" value={value} onInput={(event) => setValue(event.currentTarget.value)} />}
        </Field>
      </Form>
    </Section>
  );
}
