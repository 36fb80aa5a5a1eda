import type { JSX } from "preact";
import { identity } from "../../link/who.ts";
import { may } from "../../routes.ts";
import { useData } from "../../state/data.ts";
import "../../style/people.css";
import { Page } from "../../ui/page.tsx";
import { Copyable, Section } from "../../ui/parts.tsx";
import { Shown } from "../../ui/shown.tsx";
import { words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

interface Methods {
  gateways: { name: string; prefixes: string[] }[];
  publicUrl?: string;
}

/** What an address ends with where it names the agent. */
const AGENT: Record<string, string> = { a2a: "/default/", agui: "/default", ai_sdk: "/default" };

/** The clients that connect to this server, each with the address that is entered there. */
export default function Gateways(): JSX.Element {
  const methods = useData<Methods>("/v1/auth/methods");
  const text = peopleWords.value.gateways;
  const hasKeys = identity.value?.auth === "on";
  return (
    <Page title={words.value.pages.gateways}>
      <p>{hasKeys ? <>{text.withKey} <a href={may("keys:admin") ? "/people/keys" : "/me"}>{may("keys:admin") ? words.value.pages.keys : words.value.pages.me}</a></> : text.withoutKey}</p>
      <Shown of={methods}>
        {({ gateways, publicUrl }) => {
          const base = (publicUrl ?? location.origin).replace(/\/$/, "");
          const key = hasKeys ? ' -H "Authorization: Bearer $AVM_KEY"' : "";
          return (
            <>
              <Client title="AgentX 1.x, 2.x" about={text.agentx} addresses={[`${base.replace(/^http/, "ws")}/ws`]} />
              {gateways.map(({ name, prefixes }) => (
                <Client key={name} title={text.names[name] ?? name} about={text.about[name]} addresses={prefixes.map((prefix) => `${base}${prefix}${AGENT[name] ?? ""}`)} />
              ))}
              <Client title="HTTP" about={text.http} addresses={[`${base}/v1/messages`]} example={`curl ${base}/v1/messages${key} -d '{"content": "Hello!"}'`} />
              {may("config:read") && <p class="hint">{text.switched} <a href="/settings?q=gateways">{words.value.pages.settings}</a></p>}
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

function Client({ title, about, addresses, example }: { title: string; about: string | undefined; addresses: string[]; example?: string }): JSX.Element {
  return (
    <Section title={title}>
      {about !== undefined && <p class="hint">{about}</p>}
      <dl class="facts facts-middle">
        {addresses.map((address) => (
          <>
            <dt>{peopleWords.value.gateways.address}</dt>
            <dd><Copyable text={address} /></dd>
          </>
        ))}
        {example !== undefined && (
          <>
            <dt>{peopleWords.value.gateways.example}</dt>
            <dd><Copyable text={example} /></dd>
          </>
        )}
      </dl>
    </Section>
  );
}
