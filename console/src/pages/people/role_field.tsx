import type { JSX } from "preact";
import { identity } from "../../link/who.ts";
import { may } from "../../routes.ts";
import { Field } from "../../ui/form.tsx";
import { peopleWords } from "../../words/people/index.ts";
import { type Role, ROLES } from "./people.ts";

/** Nobody gives a role with more rights than their own. */
export const mayGive = (role: Role) => role !== "owner" || may("system:admin") || identity.value?.role === "owner";

export function RoleField({ role, onChange }: { role: Role; onChange: (role: Role) => void }): JSX.Element {
  return (
    <Field label={peopleWords.value.role}>
      {(control) => (
        <select {...control} value={role} onChange={(event) => onChange(event.currentTarget.value as Role)}>
          {ROLES.map((name) => <option key={name} value={name} disabled={!mayGive(name)}>{peopleWords.value.roles[name]}</option>)}
        </select>
      )}
    </Field>
  );
}
