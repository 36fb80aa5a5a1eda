import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { request } from "../../link/http.ts";
import { may, type PageProps } from "../../routes.ts";
import { useData, useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/form.tsx";
import { Page } from "../../ui/page.tsx";
import { Section } from "../../ui/parts.tsx";
import type { Quota } from "../../ui/quota_bar.tsx";
import { Shown } from "../../ui/shown.tsx";
import { attempt } from "../../ui/toast.tsx";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";
import { UsagePlot } from "../money/usage_plot.tsx";
import { KeyTable } from "./key_table.tsx";
import { nameOf, type Role, ROLES, type User } from "./people.ts";
import { QuotaTable } from "./quota_table.tsx";
import { mayGive } from "./role_field.tsx";

interface Owned {
  sessions: number;
  messages: number;
}

/** One user: role, containers, limits, keys, usage. */
export default function Person({ params, query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const path = (rest = "") => withQuery(`/v1/users/${encodeURIComponent(params["user"] ?? "")}${rest}`, { tenant });
  const user = useData<User>(path());
  const containers = useList<{ containerId: string }>(path("/containers"));
  const quotas = useList<Quota>(withQuery("/v1/quotas", { tenant, userId: params["user"] }));
  const [dialog, setDialog] = useState<"suspend" | "delete" | undefined>(undefined);
  const [container, setContainer] = useState("");
  const text = peopleWords.value;
  const change = (body: Partial<User>) => request("PUT", path(), body).then(user.reload);
  const bind = (name: string, method: "PUT" | "DELETE") => request(method, path(`/containers/${encodeURIComponent(name)}`)).then(containers.reload);

  const isKept = user.data?.isLastOwner === true && !may("system:admin");
  return (
    <Shown of={user}>
      {(one) => (
        <Page
          title={nameOf(one)}
          tools={
            <>
              {one.status === "active" ? (
                <Button disabled={isKept} onClick={() => setDialog("suspend")}>{text.suspend}</Button>
              ) : (
                <Button primary onClick={() => attempt(change({ status: "active" }))}>{text.resume}</Button>
              )}
              <Button disabled={isKept} onClick={() => setDialog("delete")}>{text.deleteUser}</Button>
            </>
          }
        >
          {isKept && <p class="hint">{text.lastOwner}</p>}
          <dl class="facts">
            <dt>{text.externalId}</dt>
            <dd><code dir="auto">{one.externalId}</code></dd>
            <dt>{text.status}</dt>
            <dd class={one.status === "active" ? undefined : "warn"}>{text.statuses[one.status]}</dd>
            <dt>{text.role}</dt>
            <dd>
              <select aria-label={text.role} value={one.role} disabled={isKept || !mayGive(one.role)} onChange={(event) => attempt(change({ role: event.currentTarget.value as Role }).finally(user.reload))}>
                {ROLES.map((name) => <option key={name} value={name} disabled={!mayGive(name)}>{text.roles[name]}</option>)}
              </select>
            </dd>
            <dt>{text.created}</dt>
            <dd>{moment(one.createdAt, language.value)}</dd>
          </dl>
          <Section title={text.containers}>
            <Shown of={containers}>
              {(rows) => (
                <ul class="lines">
                  {rows.map(({ containerId }) => (
                    <li key={containerId}><bdi>{containerId}</bdi> <Button onClick={() => attempt(bind(containerId, "DELETE"))}>{text.unbind}</Button></li>
                  ))}
                </ul>
              )}
            </Shown>
            <form
              class="filters"
              onSubmit={(event) => {
                event.preventDefault();
                attempt(bind(container, "PUT").then(() => setContainer("")));
              }}
            >
              <input type="text" aria-label={text.container} placeholder={text.container} required maxLength={128} value={container} onInput={(event) => setContainer(event.currentTarget.value)} />
              <button type="submit" class="btn">{text.add}</button>
            </form>
          </Section>
          <Section title={text.limits}>
            <Shown of={quotas}>{(rows) => <QuotaTable quotas={rows} tenant={tenant} userId={one.userId} onChanged={quotas.reload} />}</Shown>
          </Section>
          {may("keys:admin") && (
            <KeyTable tenant={tenant} userId={one.userId} mayCreate={one.status === "active"}>
              {(tools, table) => <Section title={words.value.pages.keys} tools={tools}>{table}</Section>}
            </KeyTable>
          )}
          <UsagePlot title={words.value.pages.usage} tenant={tenant} by="user" span="30d" only={one.userId} />
          {dialog === "suspend" && (
            <Confirm title={`${text.suspend}${words.value.colon}${nameOf(one)}`} submit={text.suspend} onConfirm={() => change({ status: "suspended" })} onClose={() => setDialog(undefined)}>
              <p>{text.suspendHint}</p>
            </Confirm>
          )}
          {dialog === "delete" && <Delete path={path()} name={one.externalId} title={text.deleteUser} onClose={() => setDialog(undefined)} onDeleted={() => go(withQuery("/people", { tenant }))} />}
        </Page>
      )}
    </Shown>
  );
}

/** Deletes what a path names, after its name was typed, and says before how much goes with it. */
export function Delete({ path, name, title, onClose, onDeleted }: { path: string; name: string; title: string; onClose: () => void; onDeleted: () => void }): JSX.Element {
  // A dry run is no change, so it is asked for when the dialog opens.
  const [owned, setOwned] = useState<Owned | undefined>(undefined);
  const [isAsked, ask] = useState(false);
  if (!isAsked) {
    ask(true);
    attempt(request<Owned>("DELETE", withQuery(path, { dryRun: "true" })).then(setOwned));
  }
  return (
    <Confirm title={`${title}${words.value.colon}${name}`} submit={title} typed={name} onConfirm={() => request("DELETE", path).then(onDeleted)} onClose={onClose}>
      {owned !== undefined && <p>{peopleWords.value.deletes(owned.sessions, owned.messages)}</p>}
    </Confirm>
  );
}
