import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { loadRatings, rate, type Rating, ratings, takeRatingBack } from "../state/feedback.ts";
import { Icon } from "../ui/icons.tsx";
import { attempt, toast } from "../ui/toast.tsx";
import { words } from "../words/index.ts";

const NOTE_MAX = 2_000;

/** The thumbs under an answer, and a note for those who say more. */
export function RateAnswer({ turnId, sessionId }: { turnId: string; sessionId: string }): JSX.Element {
  const [isNoting, setNoting] = useState(false);
  const [note, setNote] = useState("");
  const up = useRef<HTMLButtonElement>(null);
  const present = ratings.value[turnId];
  useEffect(() => void loadRatings(sessionId), [sessionId]);

  function choose(rating: Rating): void {
    const isBack = present === rating;
    setNoting(!isBack);
    attempt(isBack ? takeRatingBack(turnId) : rate(turnId, rating));
  }
  function send(): void {
    attempt(rate(turnId, present ?? "up", note.trim()).then(() => {
      toast(words.value.thanks);
      close();
    }));
  }
  function close(): void {
    up.current?.focus();
    setNoting(false);
  }
  const thumb = (rating: Rating, label: string) => (
    <button ref={rating === "up" ? up : undefined} type="button" class="btn-icon bill-link" aria-label={label} title={label} aria-pressed={present === rating} onClick={() => choose(rating)}>
      <Icon name={rating} />
    </button>
  );
  return (
    <>
      <span class="rating">
        {thumb("up", words.value.rateUp)}
        {thumb("down", words.value.rateDown)}
      </span>
      {isNoting && (
        <form
          class="rating-note"
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
          onKeyDown={(event) => {
            if (event.key !== "Escape") return;
            event.stopPropagation();
            close();
          }}
        >
          <input type="text" dir="auto" maxLength={NOTE_MAX} aria-label={words.value.rateNote} placeholder={words.value.rateNote} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
          <button type="submit" class="btn" disabled={note.trim() === ""}>{words.value.send}</button>
        </form>
      )}
    </>
  );
}
