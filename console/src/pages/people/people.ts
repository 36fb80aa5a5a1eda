/** What the pages of people read, and how it is named. */

import type { KeyView as Key, UserView as User } from "../../link/client.ts";
import { identity } from "../../link/who.ts";
import { useList, withQuery } from "../../state/data.ts";
import { words } from "../../words/index.ts";
import { may } from "../../routes.ts";

export type { Key, User };

export type Role = "owner" | "admin" | "member" | "viewer";
export const ROLES: readonly Role[] = ["viewer", "member", "admin", "owner"];
const USERS_MAX = 1_000;

export const nameOf = (user: User) => user.displayName ?? user.externalId;

/** The names of the keys of a tenant by id, for who may know them. */
export function useKeyNames(tenant: string | undefined, isWanted: boolean): Map<string, string> {
  const keys = useList<Key>(isWanted && may("keys:admin") ? withQuery("/v1/auth/keys", { tenant, limit: USERS_MAX }) : undefined);
  return new Map(keys.data?.map((key) => [key.keyId, key.name]));
}

/** The names of the users of a tenant by id, for who may know them. */
export function useNames(tenant: string | undefined): Map<string, string> {
  const users = useList<User>(may("tenants:admin") ? withQuery("/v1/users", { tenant, limit: USERS_MAX }) : undefined);
  return new Map(users.data?.map((user) => [user.userId, nameOf(user)]));
}

/** Names who did something: oneself, a key or a user by name, else by id. */
export function useActorNames(tenant: string | undefined): (actor: string) => string {
  const names = new Map([...useKeyNames(tenant, true), ...useNames(tenant)]);
  const who = identity.value;
  const nameOfPart = (part: string) => (part !== "" && (part === who?.keyId || part === who?.userId) ? words.value.you : (names.get(part) ?? part));
  return (actor) => [...new Set(actor.split("/").map(nameOfPart))].join(" / ");
}
