/** The pages of the people and money. */

import type { Route } from "../routes.ts";

export const peopleRoutes: readonly Route[] = [
  { path: "/usage", name: "usage", needs: ["usage:read", "tenants:admin"], area: "usage", icon: "usage", load: () => import("../pages/money/usage.tsx") },
  { path: "/usage/ledger", name: "ledger", needs: ["tenants:admin"], area: "usage", load: () => import("../pages/money/ledger.tsx") },
  { path: "/wallet", name: "wallet", needs: ["tenants:admin"], area: "usage", load: () => import("../pages/money/wallet.tsx") },
  { path: "/usage/cost", name: "cost", needs: ["system:admin"], area: "usage", load: () => import("../pages/money/cost.tsx") },
  { path: "/people", name: "people", needs: ["tenants:admin"], area: "people", icon: "people", load: () => import("../pages/people/list.tsx") },
  { path: "/people/invitations", name: "invitations", needs: ["tenants:admin"], area: "people", load: () => import("../pages/people/invitations.tsx") },
  { path: "/people/keys", name: "keys", needs: ["keys:admin"], area: "people", load: () => import("../pages/people/keys.tsx") },
  { path: "/people/quotas", name: "quotas", needs: ["tenants:admin"], area: "people", load: () => import("../pages/people/quotas.tsx") },
  { path: "/people/audit", name: "audit", needs: ["tenants:admin"], area: "people", load: () => import("../pages/people/audit.tsx") },
  { path: "/people/:user", name: "person", needs: ["tenants:admin"], area: "people", load: () => import("../pages/people/person.tsx") },
  { path: "/tenants", name: "tenants", needs: ["system:admin"], area: "people", load: () => import("../pages/people/tenants.tsx") },
  { path: "/tenants/:tenant", name: "tenant", needs: ["system:admin"], area: "people", load: () => import("../pages/people/tenant.tsx") },
  { path: "/me", name: "me", area: "me", icon: "me", load: () => import("../pages/people/me.tsx") },
  { path: "/me/memories", name: "memories", needs: ["agent:use"], area: "me", load: () => import("../pages/people/memories.tsx") },
  { path: "/me/schedules", name: "schedules", needs: ["agent:use"], area: "me", load: () => import("../pages/people/schedules.tsx") },
  { path: "/me/clients", name: "gateways", area: "me", load: () => import("../pages/people/gateways.tsx") },
  { path: "/shared/:share", name: "shared", needs: ["sessions:read"], area: "home", load: () => import("../pages/shared.tsx") },
  { path: "/diagnose", name: "diagnose", area: "me", load: () => import("../pages/people/diagnose.tsx") },
];
