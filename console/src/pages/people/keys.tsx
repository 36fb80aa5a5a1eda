import type { JSX } from "preact";
import { identity } from "../../link/who.ts";
import type { PageProps } from "../../routes.ts";
import "../../style/people.css";
import { Page } from "../../ui/page.tsx";
import { words } from "../../words/index.ts";
import { KeyTable } from "./key_table.tsx";
import { useNames } from "./people.ts";
import { TenantChoice } from "../../ui/tenant.tsx";

/** The keys of a tenant. */
export default function Keys({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  return (
    <KeyTable key={tenant} tenant={tenant} names={useNames(tenant)} mayCreate>
      {(tools, table) => (
        <Page title={words.value.pages.keys} tools={<><TenantChoice whole={identity.value?.tenant ?? ""} go={go} />{tools}</>}>{table}</Page>
      )}
    </KeyTable>
  );
}
