import type { TenantView as TenantRow } from "../link/client.ts";
import type { JSX } from "preact";
import { identity } from "../link/who.ts";
import { may } from "../routes.ts";
import { useData, withQuery } from "../state/data.ts";
import { activityWords } from "../words/activity/index.ts";

/** Whether an address names another tenant than the user's own. */
export function isForeign(tenant: string | undefined): boolean {
  const own = identity.value;
  return tenant !== undefined && tenant !== "" && tenant !== own?.tenantId && tenant !== own?.tenant;
}

/** For operators: the tenant that a page is about. It is in the address. `whole` names the choice of none. */
export function TenantChoice({ whole, go }: { whole: string; go: (path: string) => void }): JSX.Element | null {
  const tenants = useData<{ items: TenantRow[] }>(may("system:admin") ? "/v1/tenants?limit=1000" : undefined);
  const address = new URL(location.href);
  const now = address.searchParams.get("tenant") ?? "";
  const items = tenants.data?.items ?? [];
  if (!may("system:admin") || (items.length < 2 && now === "")) return null;
  return (
    <label class="tenant-choice">
      <span class="unseen">{activityWords.value.tenant}</span>
      <select value={now} onChange={(event) => go(withQuery(address.pathname + address.search, { tenant: event.currentTarget.value }))}>
        <option value="">{whole}</option>
        {items.map(({ tenantId, slug }) => <option key={tenantId} value={slug}>{slug}</option>)}
        {now !== "" && items.every(({ slug }) => slug !== now) && <option value={now}>{now}</option>}
      </select>
    </label>
  );
}
