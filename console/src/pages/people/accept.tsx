import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { InvitationShown as Shown } from "../../link/client.ts";
import { ApiError, request } from "../../link/http.ts";
import { loadMethods, offered, oidcStart, signIn } from "../../link/who.ts";
import { apiError } from "../../state/data.ts";
import "../../style/people.css";
import { Field, Form } from "../../ui/form.tsx";
import { Copyable } from "../../ui/parts.tsx";
import { moment } from "../../words/format.ts";
import { language, words } from "../../words/index.ts";
import { peopleWords } from "../../words/people/index.ts";

/** The page of an invited person. The secret of the link is behind the #, so that it is in no log. */
export default function Accept(): JSX.Element {
  const [token] = useState(location.hash.slice(1));
  const [shown, setShown] = useState<Shown | undefined>(undefined);
  const [problem, setProblem] = useState<ApiError | undefined>(undefined);
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const text = peopleWords.value;

  useEffect(() => {
    history.replaceState(null, "", location.pathname);
    void loadMethods().catch(() => undefined);
    request<Shown>("POST", "/v1/auth/invitation", { key: token }).then(setShown, (error: unknown) => setProblem(apiError(error)));
  }, []);

  async function accept(): Promise<void> {
    const made = await request<{ key: string }>("POST", "/v1/auth/invitation/accept", { key: token, ...(shown?.externalId === undefined ? { externalId: name } : {}) });
    setKey(made.key);
  }
  async function enter(): Promise<void> {
    await signIn(key, false);
    location.assign("/");
  }

  return (
    <main class="alone">
      <div>
        {problem !== undefined && (
          <>
            <h1>AgentVM</h1>
            <p class="problem" role="alert">{text.invitationProblems[problem.reason] ?? problem.message}</p>
            <p><a href="/">{words.value.signIn}</a></p>
          </>
        )}
        {shown !== undefined && key === "" && (
          <>
            <h1><bdi>{text.invited(shown.tenant)}</bdi></h1>
            <p>{text.invitationRole(text.roles[shown.role] ?? shown.role)} <span class="hint">{text.endsAt}{words.value.colon}{moment(shown.expiresAt, language.value)}</span></p>
            <Form submit={text.accept} onSubmit={accept}>
              <Field label={text.yourName} hint={text.externalIdHint}>
                {(control) => (
                  <input
                    {...control}
                    type="text"
                    autocomplete="username"
                    required
                    maxLength={200}
                    disabled={shown.externalId !== undefined}
                    value={shown.externalId ?? name}
                    onInput={(event) => setName(event.currentTarget.value)}
                  />
                )}
              </Field>
            </Form>
            {offered.value?.oidc !== undefined && (
              <button type="button" class="btn" onClick={() => void oidcStart({ invitation: token }).catch((error: unknown) => setProblem(apiError(error)))}>
                {words.value.signInWith(offered.value.oidc)}
              </button>
            )}
          </>
        )}
        {key !== "" && (
          <>
            <h1>{text.ready}</h1>
            <p>{text.keyShown}</p>
            <p class="secret"><Copyable text={key} /></p>
            <Form submit={words.value.signIn} onSubmit={enter}>{null}</Form>
          </>
        )}
      </div>
    </main>
  );
}
