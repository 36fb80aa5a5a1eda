import type { JSX } from "preact";
import { identity } from "../../link/who.ts";
import type { PageProps } from "../../routes.ts";
import { useList, withQuery } from "../../state/data.ts";
import "../../style/people.css";
import { Page } from "../../ui/page.tsx";
import type { Quota } from "../../ui/quota_bar.tsx";
import { Shown } from "../../ui/shown.tsx";
import { words } from "../../words/index.ts";
import { useNames } from "./people.ts";
import { QuotaTable } from "./quota_table.tsx";
import { TenantChoice } from "../../ui/tenant.tsx";

/** The limits of a tenant and of its users. */
export default function Quotas({ query, go }: PageProps): JSX.Element {
  const { tenant } = query;
  const quotas = useList<Quota>(withQuery("/v1/quotas", { tenant }));
  const names = useNames(tenant);
  return (
    <Page title={words.value.pages.quotas} tools={<TenantChoice whole={identity.value?.tenant ?? ""} go={go} />}>
      <Shown of={quotas}>{(rows) => <QuotaTable quotas={rows} tenant={tenant} names={names} onChanged={quotas.reload} />}</Shown>
    </Page>
  );
}
