import type { JSX } from "preact";
import { may } from "../../routes.ts";
import { useList } from "../../state/data.ts";
import { useRefresh } from "../../state/refresh.ts";
import "../../style/activity.css";
import { Page } from "../../ui/page.tsx";
import { Prose } from "../../ui/parts.tsx";
import { Empty, Shown } from "../../ui/shown.tsx";
import { words } from "../../words/index.ts";
import { settingsWords } from "../../words/settings/index.ts";
import { ProviderTable, type ProviderRow } from "./provider_table.tsx";

const REFRESH_MS = 5_000;

/** The model providers as calls find them now. */
export default function Providers(): JSX.Element {
  const providers = useList<ProviderRow>("/v1/providers?limit=1000");
  useRefresh(providers.reload, REFRESH_MS);
  const text = settingsWords.value;
  return (
    <Page title={words.value.pages.providers}>
      <p class="hint"><Prose text={text.providersHint} /></p>
      {providers.data?.some(({ driver }) => driver === "local") && <p class="hint"><Prose text={text.providersDemo} /></p>}
      <Shown of={providers}>
        {(rows) => (rows.length === 0 ? <Empty action={may("config:read") ? <a class="btn" href="/settings?q=llm">{words.value.pages.settings}</a> : undefined}>{text.providersNothing}</Empty> : <ProviderTable rows={rows} />)}
      </Shown>
    </Page>
  );
}
