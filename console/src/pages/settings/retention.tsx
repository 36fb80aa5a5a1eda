import type { JSX } from "preact";
import type { RetentionView } from "../../link/client.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, withQuery } from "../../state/data.ts";
import "../../style/activity.css";
import { Field } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Figures, Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";
import { activityWords } from "../../words/activity/index.ts";
import { language, words } from "../../words/index.ts";
import { bytes } from "../../words/measure.ts";
import { settingsWords } from "../../words/settings/index.ts";

const RULES = ["sessionDays", "archivedDays", "statelessDays", "rewoundDays", "messageDays"] as const;
const NEVER_DAYS = 36_500;

/** How long conversations are kept, and what would go: now, or with other days. The days that are tried are in the address. */
export default function Retention({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const text = settingsWords.value;
  const tried = Object.fromEntries(RULES.map((rule) => [rule, query[rule]]));
  const isTried = RULES.some((rule) => query[rule] !== undefined);
  const retention = useData<RetentionView>(withQuery("/v1/retention", { tenant, ...tried }));
  return (
    <Page title={words.value.pages.retention} tools={<TenantChoice whole={activityWords.value.ofTenant} go={go} />}>
      <p class="hint">{text.retentionHint}</p>
      <Shown of={retention}>
        {({ policy, due }) => (
          <>
            <form
              class="form"
              onSubmit={(event) => {
                event.preventDefault();
                const form = new FormData(event.currentTarget);
                go(withQuery("/settings/retention", { tenant, ...Object.fromEntries(RULES.map((rule) => [rule, String(form.get(rule) ?? "")])) }));
              }}
            >
              {RULES.map((rule) => (
                <div key={rule} class="rule">
                  <Field label={text.retentionDays[rule] ?? rule}>
                    {(control) => (
                      <span class="rule-days">
                        <input {...control} key={query[rule] ?? ""} type="number" name={rule} min={1} max={NEVER_DAYS} defaultValue={query[rule] ?? ""} placeholder={policy[rule] === null ? text.daysNever : String(policy[rule])} />
                        {text.days}
                        {may("config:write") && <a href={withQuery(`/settings/retention.${rule}`, { tenant })}>{text.retentionChange}</a>}
                      </span>
                    )}
                  </Field>
                </div>
              ))}
              <div class="form-end"><button type="submit" class="btn btn-ink">{text.retentionTry}</button></div>
            </form>
            <Section title={isTried ? text.retentionDueTried : text.retentionDue}>
              <Figures
                of={[
                  [text.counts["sessions"] ?? "", due.sessions.toLocaleString(language.value)],
                  [text.retentionEmptied, due.emptied.toLocaleString(language.value)],
                  [text.counts["messages"] ?? "", due.messages.toLocaleString(language.value)],
                  [text.bytes, bytes(due.bytes)],
                ]}
              />
            </Section>
          </>
        )}
      </Shown>
    </Page>
  );
}
