import type { JSX } from "preact";
import { Page } from "../ui/page.tsx";
import { Empty } from "../ui/shown.tsx";
import { words } from "../words/index.ts";

/** For an address that no page has. */
export function NotThere(): JSX.Element {
  return (
    <Page title={words.value.notThereTitle}>
      <Empty action={<a class="btn" href="/">{words.value.chat}</a>}>{words.value.notThere}</Empty>
    </Page>
  );
}

/** For a page that the user may not open. */
export function Forbidden({ title, needs }: { title: string; needs: readonly string[] }): JSX.Element {
  return (
    <Page title={title}>
      <p class="problem">
        {words.value.needsPermission} {needs.map((permission, index) => <>{index > 0 && " / "}<code>{permission}</code></>)}
      </p>
      <p class="hint">{words.value.askAdministrator}</p>
    </Page>
  );
}
